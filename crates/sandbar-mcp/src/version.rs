//! Differences between versions of the protocol.

use rmcp::{RoleServer, model::ProtocolVersion, service::RequestContext};

/// Returns the version of a request: from the request itself, the handshake, or the HTTP header.
pub(crate) fn spoken(context: &RequestContext<RoleServer>) -> ProtocolVersion {
    context
        .protocol_version()
        .unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// Reports whether requests are independent of any session.
pub(crate) fn is_stateless(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2026_07_28
}

/// Reports whether tools have annotations, and progress has messages.
pub(crate) fn has_annotations(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2025_03_26
}

/// Reports whether tools have titles, and results have structured content.
pub(crate) fn has_structured_content(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2025_06_18
}
