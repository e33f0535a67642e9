//! Network status of a session.

use super::{NetworkPolicy, NetworkTraffic, SecretValue};
use crate::Capability;

/// Policy of a session, whether it is enforced, and its traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkStatus {
    pub policy: NetworkPolicy,
    /// Whether the policy is enforced, or the reason why not.
    pub enforced: Capability,
    pub traffic: NetworkTraffic,
    /// Token for the ports of this session by host name. `None` for callers with read access only.
    pub traffic_token: Option<SecretValue>,
}
