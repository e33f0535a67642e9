//! HTTP/1.1 connections that switch to another protocol.

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

use super::{headers::list_entries, tasks::Tasks};

/// A request with an `Upgrade` header.
#[derive(Debug)]
pub(super) struct Upgrade {
    client: OnUpgrade,
    protocols: HeaderValue,
}

impl Upgrade {
    /// Returns the upgrade that a request asks for. Upgrades to TLS or another version of HTTP are
    /// ignored: the requests that follow would not be judged.
    pub(super) fn from_request(request: &mut Request<Incoming>) -> Option<Self> {
        let client = on(&mut *request);
        let headers = request.headers();
        let asks =
            list_entries(headers, &CONNECTION).any(|entry| entry.eq_ignore_ascii_case("upgrade"));
        let is_http = |protocol: &str| {
            let protocol = protocol.to_ascii_lowercase();
            ["h2", "http", "tls"]
                .iter()
                .any(|known| protocol.starts_with(known))
        };
        if request.version() != Version::HTTP_11
            || !asks
            || list_entries(headers, &UPGRADE).any(is_http)
        {
            return None;
        }
        let mut lines = headers.get_all(UPGRADE).iter();
        let (Some(protocols), None) = (lines.next(), lines.next()) else {
            return None;
        };
        Some(Self {
            client,
            protocols: protocols.clone(),
        })
    }

    /// Adds the upgrade to the forwarded request, after the hop-by-hop headers were removed.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        set_upgrade(headers, self.protocols.clone());
    }

    /// Relays the upgraded connection in a task of `relays`. Returns the headers for the client.
    pub(super) fn relay(self, mut response: Response<Incoming>, relays: &Tasks) -> HeaderMap {
        let server = on(&mut response);
        let mut headers = std::mem::take(response.headers_mut());
        let chosen = headers.get(UPGRADE).cloned().unwrap_or(self.protocols);
        super::headers::strip_hop_by_hop(&mut headers);
        set_upgrade(&mut headers, chosen);
        let client = self.client;
        relays.spawn(async move {
            let (client, server) = match tokio::try_join!(client, server) {
                Ok(both) => both,
                Err(error) => {
                    tracing::debug!("upgrade of a connection failed: {error}");
                    return;
                }
            };
            let copied =
                copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
            if let Err(error) = copied {
                tracing::debug!("upgraded connection failed: {error}");
            }
        });
        headers
    }
}

fn set_upgrade(headers: &mut HeaderMap, protocols: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocols);
}
