//! What the gateway asks of the host.

use std::fmt;

use sandbar_core::{NetworkDecision, SecretName, SecretValue};

/// Hears of every decision about one session. Called often and from async code: it must not block.
pub trait DecisionSink: fmt::Debug + Send + Sync {
    fn decided(&self, decision: NetworkDecision);
}

/// Knows the secrets of the host. Called for every request that gets one, so that a changed secret counts at once.
pub trait Secrets: fmt::Debug + Send + Sync {
    fn secret(&self, name: &SecretName) -> Option<SecretValue>;
}
