//! A small internet for one test.
//!
//! The test's thread, and every thread and process it starts from then on, is moved to a network namespace of its own: the
//! *host*, with a loopback and services on it that no session may reach. A second namespace is the internet: servers with
//! public, private and link-local addresses, a DNS server with a zone the test writes, and a certificate authority made by
//! the `openssl` program. A pair of virtual interfaces joins them. No packet leaves these two namespaces, and both end with
//! the test's process.
//!
//! Every server writes down what it hears, and whatever crosses the wire is written down too: a test can say that
//! somebody saw nothing at all.

mod certificates;
mod dns_message;
mod dns_server;
mod heard;
mod namespaces;
mod pages;
mod plain;
mod serve;
mod services;
mod web;
mod wire;
mod zone;

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    thread::JoinHandle,
};

use tokio::sync::oneshot;

use crate::tree::{Scratch, scratch};

use certificates::Certificates;
use heard::Log;
use namespaces::Namespace;
use serve::Servers;
use wire::Wire;

pub use heard::Heard;
pub use namespaces::private_loopback;
pub use pages::{Page, Pages};
pub use services::{
    API, ATTACKER, ATTACKER_V6, DNS, ECHO, HOST, INTRANET, METADATA, PUBLIC_RESOLVER, SSH, WEB, WEB_V6,
};
pub use wire::Packet;
pub use zone::{Answer, Zone};

/// The internet of a test, and the host in it.
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
    /// Makes it, and moves the calling thread to its host. To be called before the test starts other threads, which would
    /// stay where they are.
    pub fn start() -> Self {
        let scratch = scratch();
        let certificates = Certificates::make(scratch.path());
        let outside = Namespace::new();
        namespaces::become_host_of(&outside);
        let wire = outside.run(Wire::tap);
        let mut sockets = services::bind(services::OF_THE_HOST);
        sockets.extend(outside.run(|| services::bind(services::OF_THE_INTERNET)));
        let (pages, zone, log) = (Arc::<Pages>::default(), Arc::new(Zone::usual()), Arc::<Log>::default());
        let servers = Servers {
            pages: Arc::clone(&pages),
            zone: Arc::clone(&zone),
            log: Arc::clone(&log),
            tls: certificates.server_config(),
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("internet".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                servers.start(sockets);
                let _ = stopped.await;
            });
        });
        let servers = Some(thread.unwrap());
        Self { pages, zone, log, wire, certificates, stop: Some(stop), servers, _scratch: scratch }
    }

    /// The DNS server of the host.
    pub fn dns_server(&self) -> SocketAddr {
        SocketAddr::new(services::address(DNS), 53)
    }

    /// The certificate its servers are trusted by.
    pub fn authority(&self) -> &Path {
        self.certificates.authority()
    }

    /// What its web servers show.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// What its DNS servers say.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Everything its servers, and those of the host, have heard.
    pub fn heard(&self) -> Vec<Heard> {
        self.log.all()
    }

    /// What the servers at an address have heard.
    pub fn heard_at(&self, address: &str) -> Vec<Heard> {
        let address = services::address(address);
        self.heard().into_iter().filter(|heard| heard.at.ip() == address).collect()
    }

    /// What was said to a host by its name, wherever it was said.
    pub fn heard_by(&self, host: &str) -> Vec<Heard> {
        self.heard().into_iter().filter(|heard| heard.host.as_deref() == Some(host)).collect()
    }

    /// Everything that came from the host to the internet.
    pub fn packets(&self) -> Vec<Packet> {
        self.wire.packets()
    }

    /// Whether anything came from the host for this address.
    pub fn was_reached(&self, address: &str) -> bool {
        let address: IpAddr = services::address(address);
        self.packets().iter().any(|packet| packet.to.ip() == address) || !self.heard_at(&address.to_string()).is_empty()
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
