//! How the network of a session is.

use super::{NetworkPolicy, NetworkTraffic, SecretValue};
use crate::Capability;

/// What counts for the network of a session, whether that is kept, and what went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkStatus {
    pub policy: NetworkPolicy,
    /// Whether the policy is kept here, and why not.
    pub enforced: Capability,
    pub traffic: NetworkTraffic,
    /// Opens the ports of this session by host name, and nothing else. `None` to callers who may only look.
    pub traffic_token: Option<SecretValue>,
}
