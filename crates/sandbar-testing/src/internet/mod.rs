//! A small internet for one test.
//!
//! The test's thread, and every thread and process it starts from then on, is moved to a network
//! namespace of its own: the *host*, with a loopback and services on it that no session may reach.
//! A second namespace is the internet: servers with public, private and link-local addresses, a DNS
//! server with a zone the test writes, and a certificate authority made by the `openssl` program. A
//! pair of virtual interfaces joins them. No packet leaves these two namespaces, and both end with
//! the test's process.
//!
//! Every server records what it receives, and every packet on the wire is captured, so that a test
//! can prove that a server received nothing.

mod certificates;
mod dns_message;
mod dns_server;
mod heard;
mod namespaces;
mod pages;
mod plain;
mod serve;
mod services;
mod simulation;
mod web;
mod wire;
mod zone;

pub use heard::Heard;
pub use namespaces::private_loopback;
pub use pages::{Page, Pages};
pub use services::{
    API, ATTACKER, ATTACKER_V6, DNS, ECHO, HOST, INTRANET, METADATA, PUBLIC_RESOLVER, SSH, WEB,
    WEB_V6,
};
pub use simulation::Internet;
pub use wire::Packet;
pub use zone::{Answer, Zone};
