//! State of envd.

use std::sync::Arc;

use sandbar_host::Host;
use tokio_util::sync::CancellationToken;

/// Shared state of the handlers of envd.
#[derive(Debug)]
pub(crate) struct Envd {
    pub(super) host: Arc<Host>,
    /// Cancelled at shutdown: streams end then instead of delaying it.
    pub(super) shutdown: CancellationToken,
}

impl Envd {
    pub(crate) fn new(host: Arc<Host>, shutdown: CancellationToken) -> Self {
        Self { host, shutdown }
    }
}
