//! Connections that stop being HTTP.

use http::{
    HeaderMap, HeaderValue, Request, Response, Version,
    header::{CONNECTION, UPGRADE},
};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, on},
};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::{headers::lists, tasks::Tasks};

/// A request that asks to go on as something else.
#[derive(Debug)]
pub(super) struct Upgrade {
    client: OnUpgrade,
    protocols: HeaderValue,
}

impl Upgrade {
    /// What the request asks for. To go on as HTTP again, inside TLS or not, is not offered: nobody would judge the requests
    /// that follow.
    pub(super) fn wanted(request: &mut Request<Incoming>) -> Option<Self> {
        let client = on(&mut *request);
        let headers = request.headers();
        let asks = lists(headers, &CONNECTION).any(|entry| entry.eq_ignore_ascii_case("upgrade"));
        let is_http = |protocol: &str| {
            let protocol = protocol.to_ascii_lowercase();
            ["h2", "http", "tls"].iter().any(|known| protocol.starts_with(known))
        };
        if request.version() != Version::HTTP_11 || !asks || lists(headers, &UPGRADE).any(is_http) {
            return None;
        }
        let mut lines = headers.get_all(UPGRADE).iter();
        let (Some(protocols), None) = (lines.next(), lines.next()) else { return None };
        Some(Self { client, protocols: protocols.clone() })
    }

    /// Asks the server too. These headers are of one connection, so that they were stripped.
    pub(super) fn ask(&self, headers: &mut HeaderMap) {
        put(headers, self.protocols.clone());
    }

    /// The server goes along: from here on bytes are only copied, in a task of `relays`. The head is what the client gets.
    pub(super) fn relay(self, mut response: Response<Incoming>, relays: &Tasks) -> HeaderMap {
        let server = on(&mut response);
        let mut headers = std::mem::take(response.headers_mut());
        let chosen = headers.get(UPGRADE).cloned().unwrap_or(self.protocols);
        super::headers::strip_connection(&mut headers);
        put(&mut headers, chosen);
        let client = self.client;
        relays.spawn(async move {
            let (client, server) = match tokio::try_join!(client, server) {
                Ok(both) => both,
                Err(error) => {
                    tracing::debug!("a connection did not go on: {error}");
                    return;
                }
            };
            let copied = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
            if let Err(error) = copied {
                tracing::debug!("a connection that went on as something else ended: {error}");
            }
        });
        headers
    }
}

fn put(headers: &mut HeaderMap, protocols: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocols);
}
