//! [`Internet`]: starts and stops the servers, and inspects what they received.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    thread::JoinHandle,
};

use tokio::sync::oneshot;

use super::{
    DNS, Heard, Packet, Pages, Zone,
    certificates::Certificates,
    heard::Log,
    namespaces::{self, Namespace},
    serve::Servers,
    services,
    wire::Wire,
};
use crate::tree::{Scratch, scratch};

/// The test internet, with the host namespace that the test runs in.
#[derive(Debug)]
pub struct Internet {
    pages: Arc<Pages>,
    zone: Arc<Zone>,
    log: Arc<Log>,
    wire: Wire,
    certificates: Certificates,
    stop: Option<oneshot::Sender<()>>,
    servers: Option<JoinHandle<()>>,
    _scratch: Scratch,
}

impl Internet {
    /// Starts it, and moves the calling thread to its host namespace. Must be called before the
    /// test starts other threads, which would stay in their namespace.
    pub fn start() -> Self {
        let scratch = scratch();
        let certificates = Certificates::make(scratch.path());
        let outside = Namespace::new();
        namespaces::become_host_of(&outside);
        let wire = outside.run(Wire::tap);
        let mut sockets = services::bind(services::OF_THE_HOST);
        sockets.extend(outside.run(|| services::bind(services::OF_THE_INTERNET)));
        let (pages, zone, log) = (
            Arc::<Pages>::default(),
            Arc::new(Zone::usual()),
            Arc::<Log>::default(),
        );
        let servers = Servers {
            pages: Arc::clone(&pages),
            zone: Arc::clone(&zone),
            log: Arc::clone(&log),
            tls: certificates.server_config(),
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("internet".into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(async {
                    servers.start(sockets);
                    let _ = stopped.await;
                });
            });
        let servers = Some(thread.unwrap());
        Self {
            pages,
            zone,
            log,
            wire,
            certificates,
            stop: Some(stop),
            servers,
            _scratch: scratch,
        }
    }

    /// Returns the address of its DNS server.
    pub fn dns_server(&self) -> SocketAddr {
        SocketAddr::new(services::address(DNS), 53)
    }

    /// Returns the CA certificate of its servers.
    pub fn authority(&self) -> &Path {
        self.certificates.authority()
    }

    /// Returns the pages of its web servers.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Returns the zone of its DNS servers.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Lists everything that its servers, and those of the host, have received.
    pub fn received(&self) -> Vec<Heard> {
        self.log.all()
    }

    /// Lists what the servers at an address have received.
    pub fn received_at(&self, address: &str) -> Vec<Heard> {
        let address = services::address(address);
        self.received()
            .into_iter()
            .filter(|heard| heard.at.ip() == address)
            .collect()
    }

    /// Lists what was sent to a host by its name, at any address.
    pub fn received_by(&self, host: &str) -> Vec<Heard> {
        self.received()
            .into_iter()
            .filter(|heard| heard.host.as_deref() == Some(host))
            .collect()
    }

    /// Lists the packets from the host to the internet.
    pub fn packets(&self) -> Vec<Packet> {
        self.wire.packets()
    }

    /// Whether any packet or request reached this address.
    pub fn was_reached(&self, address: &str) -> bool {
        let address: IpAddr = services::address(address);
        self.packets()
            .iter()
            .any(|packet| packet.to.ip() == address)
            || !self.received_at(&address.to_string()).is_empty()
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(servers) = self.servers.take() {
            let _ = servers.join();
        }
    }
}
