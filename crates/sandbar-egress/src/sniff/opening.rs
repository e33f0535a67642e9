//! Classifies a connection by its first bytes.

use super::{ClientHello, client_hello, http_start};

/// Number of bytes that are examined. A connection that is undecided then is treated as the
/// protocol that is judged more strictly.
pub(crate) const MAX_OPENING_BYTES: usize = 64 * 1024;

/// Protocol that a connection starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// More bytes are needed. Never returned for [`MAX_OPENING_BYTES`] bytes or more.
    Unfinished,
    Tls(ClientHello),
    Http,
    Other,
}

/// Reports whether undecided bytes may be the beginning of TLS or HTTP. A connection that ends, or
/// is relayed, after them would carry a host name that was not judged.
pub(crate) fn may_carry_name(bytes: &[u8]) -> bool {
    match client_hello::read(bytes) {
        _ if bytes.is_empty() => false,
        Opening::Other => http_start::may_be_request(bytes),
        Opening::Unfinished | Opening::Tls(_) | Opening::Http => true,
    }
}

/// Classifies the bytes that the client has sent so far.
pub(crate) fn opening(bytes: &[u8]) -> Opening {
    match client_hello::read(bytes) {
        Opening::Other => http_start::read(bytes),
        decided => decided,
    }
}
