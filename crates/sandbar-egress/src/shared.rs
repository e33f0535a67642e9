//! State shared by the sessions of a host.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use sandbar_core::{Error, Result};
use sandbar_resolver::Resolver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{GatewaySettings, host_addresses::HostAddresses, tls::UpstreamTls};

/// A connection takes two descriptors, and two more for each direction that is spliced through a
/// pipe. With one connection per 16 descriptors, all sessions together use at most about a third of
/// the descriptors this process may open.
const DESCRIPTORS_PER_CONNECTION: u64 = 16;

/// Connections that are permitted however low the descriptor limit is.
const MIN_CONNECTIONS: usize = 64;

/// Resolver, TLS client and limits of the whole host.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) resolver: Resolver,
    pub(crate) upstream_tls: UpstreamTls,
    pub(crate) host_addresses: HostAddresses,
    /// One permit per connection of any session, so that sessions cannot exhaust the descriptors of
    /// the host process.
    connections: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(settings: &GatewaySettings) -> Result<Self> {
        Ok(Self {
            resolver: resolver(settings)?,
            upstream_tls: UpstreamTls::new(settings)?,
            host_addresses: HostAddresses::default(),
            connections: Arc::new(Semaphore::new(max_connections())),
        })
    }

    /// Returns a permit for one more connection; `None` at the limit of the host.
    pub(crate) fn connection_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }
}

/// Returns a resolver that uses the servers of the settings, or those of this machine.
fn resolver(settings: &GatewaySettings) -> Result<Resolver> {
    if let Some(server) = settings
        .dns_servers
        .iter()
        .find(|server| server.port() == 0 || server.ip().is_unspecified())
    {
        return Err(Error::invalid(
            "dns_servers",
            format!("name server address `{server}` is not usable"),
        )
        .with_hint("write an address and a port, such as `192.0.2.53:53`"));
    }
    Ok(if settings.dns_servers.is_empty() {
        Resolver::system()
    } else {
        Resolver::with_servers(settings.dns_servers.clone())
    })
}

fn max_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections =
        usize::try_from(descriptors / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX);
    connections.clamp(MIN_CONNECTIONS, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_server_without_port_or_address_is_refused() {
        for bad in ["192.0.2.1:0", "0.0.0.0:53", "[::]:53"] {
            let settings = GatewaySettings {
                dns_servers: vec![bad.parse().unwrap()],
                ..GatewaySettings::default()
            };
            assert_eq!(
                resolver(&settings).unwrap_err().field(),
                Some("dns_servers"),
                "{bad}"
            );
        }
        resolver(&GatewaySettings::default()).unwrap();
    }
}
