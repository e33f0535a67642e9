//! Fuzzing entry point for the parser of netlink answers.

use crate::netlink::acknowledgements;

/// Parses one datagram. Every message is counted at most once.
pub fn netlink_answers(bytes: &[u8]) {
    if let Ok(count) = acknowledgements(bytes) {
        assert!(
            count <= bytes.len() / 16,
            "{count} answers in {} bytes",
            bytes.len()
        );
    }
}
