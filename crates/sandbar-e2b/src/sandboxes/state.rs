//! State shared by all parts that work on sandboxes.

use std::{sync::Arc, time::Duration};

use sandbar_core::{RootRights, SessionId};
use sandbar_host::{Host, SessionLocks};
use tokio::sync::OwnedMutexGuard;

use super::SandboxCeilings;

/// The sandboxes of a host.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    pub(super) host: Arc<Host>,
    locks: SessionLocks,
    /// Limit for waiting until the start command of a new sandbox is ready.
    pub(super) ready_timeout: Duration,
    pub(crate) ceilings: SandboxCeilings,
}

impl Sandboxes {
    pub(crate) fn new(host: Arc<Host>, ready_timeout: Duration, ceilings: SandboxCeilings) -> Self {
        Self {
            host,
            locks: SessionLocks::default(),
            ready_timeout,
            ceilings,
        }
    }

    /// Locks a sandbox. Held while its note is read and written back, and while it is woken, so
    /// that concurrent requests wake it once and lose no change.
    pub(crate) async fn lock(&self, id: &SessionId) -> OwnedMutexGuard<()> {
        self.locks.lock(id).await
    }

    /// Returns the rights of root in a new sandbox. `sudo` and package managers work in sandboxes
    /// of E2B; here they do if the host supports it and its operator permits it.
    pub(crate) fn root_rights(&self) -> RootRights {
        if self.host.capabilities().root_rights.is_yes() {
            self.ceilings.root_rights
        } else {
            RootRights::Bare
        }
    }
}
