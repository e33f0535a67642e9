//! Ceilings that the operator of a host sets for the sandboxes of E2B clients.

use axum::http::StatusCode;
use sandbar_core::{NetworkPolicy, RootRights};

use super::NetworkConfig;
use crate::rest::{ApiError, ApiResult};

/// Upper limits of the rights that E2B clients may give to a sandbox. The default is E2B's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxCeilings {
    /// A sandbox reaches everything public unless its settings say otherwise. If not, it reaches
    /// only the destinations that its settings name.
    pub open_egress: bool,
    /// Ports of a sandbox need no token unless its settings say otherwise.
    pub public_ports: bool,
    pub root_rights: RootRights,
}

impl Default for SandboxCeilings {
    fn default() -> Self {
        Self {
            open_egress: true,
            public_ports: true,
            root_rights: RootRights::Own,
        }
    }
}

impl SandboxCeilings {
    /// Lowers network settings to the ceilings. SDKs send `allow_internet_access: true` on their
    /// own account, so it is lowered and not refused; the details of the sandbox tell.
    pub(crate) fn lower(self, config: &mut NetworkConfig, internet: &mut Option<bool>) {
        if !self.open_egress {
            *internet = Some(false);
        }
        if !self.public_ports {
            config.allow_public_traffic = Some(false);
        }
    }

    /// Refuses a policy that is still above the ceilings: its settings name all destinations.
    pub(crate) fn check(self, policy: &NetworkPolicy) -> ApiResult<()> {
        if policy.allow_outbound && !self.open_egress {
            return Err(forbidden(
                "`network.allowOut` allows everything, and this host lets sandboxes reach named destinations only \
                 (name them, or ask its operator for `e2b_open_egress`)",
            ));
        }
        Ok(())
    }

    /// Refuses a sandbox without access token where ports need one.
    pub(crate) fn check_secure(self, secure: bool) -> ApiResult<()> {
        if !secure && !self.public_ports {
            return Err(forbidden(
                "`secure: false` opens a sandbox to callers without a token, which this host does not allow \
                 (leave it out, or ask its operator for `e2b_public_ports`)",
            ));
        }
        Ok(())
    }
}

fn forbidden(why: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, why)
}
