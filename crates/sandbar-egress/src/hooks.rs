//! Interfaces and data that the host passes in for each session.

use std::{fmt, sync::Arc};

use sandbar_core::{NetworkDecision, NetworkPolicy, SecretName, SecretValue};

use crate::{Authority, TrafficCounters};

/// Receives every decision about one session. Called often and from async code: it must not block.
pub trait DecisionSink: fmt::Debug + Send + Sync {
    fn decided(&self, decision: NetworkDecision);
}

/// Looks up the secrets of the host. Called for every request that gets one, so that a changed
/// secret takes effect at once.
pub trait Secrets: fmt::Debug + Send + Sync {
    fn secret(&self, name: &SecretName) -> Option<SecretValue>;
}

/// Policy, callbacks and counters of one session.
#[derive(Debug)]
pub struct SessionHooks {
    pub policy: NetworkPolicy,
    pub sink: Arc<dyn DecisionSink>,
    pub secrets: Arc<dyn Secrets>,
    /// CA that the box trusts for TLS that is inspected. Without one, connections that would have
    /// to be inspected are denied.
    pub authority: Option<Arc<Authority>>,
    pub traffic: Arc<TrafficCounters>,
}
