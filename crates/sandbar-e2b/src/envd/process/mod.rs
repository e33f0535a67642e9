//! `process` over Connect.

use std::sync::Arc;

use crate::surface::Surface;

/// Adds the service to those of envd.
pub(super) fn register(calls: connectrpc::Router, _surface: &Arc<Surface>) -> connectrpc::Router {
    calls
}
