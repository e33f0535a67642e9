//! What the engine asks of the gate it works for.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::future::BoxFuture;
use sandbar_core::{NetworkDecision, SecretName, SecretValue};
use tokio::net::TcpStream;

use crate::{
    rules::Rules,
    sniff::HostPort,
    tls::{Authority, UpstreamTls},
};

/// One session's way out.
pub(crate) trait Outside: Send + Sync + 'static {
    /// What holds now. Another object means that the policy was set again.
    fn rules(&self) -> Arc<Rules>;

    fn own_addresses(&self) -> Arc<[IpAddr]>;

    fn record(&self, decision: NetworkDecision);

    fn secret(&self, name: &SecretName) -> Option<SecretValue>;

    /// Looks the target up, judges it and every address it leads to, and connects. Records nothing.
    fn dial<'a>(&'a self, target: &'a HostPort) -> BoxFuture<'a, Result<(TcpStream, SocketAddr), Refusal>>;

    fn upstream_tls(&self) -> &UpstreamTls;

    fn authority(&self) -> Option<&Arc<Authority>>;
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// The rules said no. Otherwise it could not be reached.
    pub(crate) denied: bool,
}
