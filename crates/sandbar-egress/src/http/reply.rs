//! Responses of the gateway itself.

use http::{
    HeaderValue, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use sandbar_core::SecretName;

use super::relayed_body::RelayedBody;
use crate::{refusal::Refusal, sniff::HostPort};

/// Response of the gateway in place of a server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The request is malformed or ambiguous.
    Bad(&'static str),
    /// The request is for a host other than that of its connection.
    Misdirected {
        host: HostPort,
    },
    /// `CONNECT` is served by the listener; `TRACE` would echo the secret.
    NotServed,
    Refused {
        host: String,
        refusal: Refusal,
    },
    MissingSecret(SecretName),
}

impl Reply {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::Misdirected { .. } => StatusCode::MISDIRECTED_REQUEST,
            Self::NotServed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Refused {
                refusal: Refusal { denied: true, .. },
                ..
            } => StatusCode::FORBIDDEN,
            Self::Refused { .. } | Self::MissingSecret(_) => StatusCode::BAD_GATEWAY,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Bad(why) => format!("sandbar: {why}\n"),
            Self::Misdirected { host } => {
                format!(
                    "sandbar: {host} may not be reached: the connection was opened for another host\n"
                )
            }
            Self::NotServed => "sandbar: the method is not served\n".to_owned(),
            Self::Refused {
                host,
                refusal:
                    Refusal {
                        reason,
                        denied: true,
                    },
            } => {
                format!("sandbar: {host} may not be reached: {reason}\n")
            }
            Self::Refused { host, refusal } => {
                format!("sandbar: {host} cannot be reached: {}\n", refusal.reason)
            }
            Self::MissingSecret(name) => {
                format!("sandbar: secret {name} does not exist on this host\n")
            }
        }
    }

    pub(super) fn into_response(self) -> Response<RelayedBody> {
        let status = self.status();
        let mut response = Response::new(RelayedBody::text(self.text()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        if matches!(
            status,
            StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST
        ) {
            headers.insert("x-sandbar-denied", HeaderValue::from_static("1"));
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(
                ALLOW,
                HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
            );
        }
        response
    }
}
