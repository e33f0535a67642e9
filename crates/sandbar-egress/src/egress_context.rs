//! The services of a session that the HTTP engine uses.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::future::BoxFuture;
use sandbar_core::{NetworkDecision, SecretName, SecretValue};
use tokio::net::TcpStream;

use crate::{
    refusal::Refusal,
    rules::Rules,
    sniff::HostPort,
    tls::{Authority, UpstreamTls},
};

/// Rules, secrets and upstream connections of one session.
pub(crate) trait EgressContext: Send + Sync + 'static {
    /// Returns the current rules. Another `Arc` means that the policy was replaced.
    fn rules(&self) -> Arc<Rules>;

    /// Returns the addresses of the host itself.
    fn own_addresses(&self) -> Arc<[IpAddr]>;

    /// Records a decision in the audit log and counts it.
    fn record(&self, decision: NetworkDecision);

    fn secret(&self, name: &SecretName) -> Option<SecretValue>;

    /// Resolves the target, evaluates the rules for it and for every address it resolves to, and
    /// connects. Records nothing.
    fn dial<'a>(
        &'a self,
        target: &'a HostPort,
    ) -> BoxFuture<'a, Result<(TcpStream, SocketAddr), Refusal>>;

    fn upstream_tls(&self) -> &UpstreamTls;

    /// Returns the CA that the box trusts; `None` if it was created without one.
    fn authority(&self) -> Option<&Arc<Authority>>;
}
