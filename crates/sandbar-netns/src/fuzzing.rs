//! A way to what the kernel answers for the fuzzer.

use crate::netlink::acknowledgements;

/// One datagram of answers: every message is looked at once.
pub fn netlink_answers(bytes: &[u8]) {
    if let Ok(count) = acknowledgements(bytes) {
        assert!(count <= bytes.len() / 16, "{count} answers in {} bytes", bytes.len());
    }
}
