//! What tells the versions of the protocol apart.

use rmcp::{RoleServer, model::ProtocolVersion, service::RequestContext};

/// The version a request speaks: the one it names itself, the one of the handshake, or over HTTP the one of the header.
pub(crate) fn spoken(context: &RequestContext<RoleServer>) -> ProtocolVersion {
    context.protocol_version().unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// Whether every request stands for itself.
pub(crate) fn is_stateless(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2026_07_28
}

/// Whether tools say how dangerous they are, and progress says something beside a number.
pub(crate) fn has_annotations(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2025_03_26
}

/// Whether tools have titles, and answers a form that programs read.
pub(crate) fn has_structured_content(version: &ProtocolVersion) -> bool {
    *version >= ProtocolVersion::V_2025_06_18
}
