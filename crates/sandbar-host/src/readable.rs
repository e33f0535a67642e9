//! Readiness of file descriptors.

#![expect(
    unsafe_code,
    reason = "`AsyncFd::register` needs a descriptor that stays open"
)]

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Registers a non-blocking descriptor with the runtime, to wait until it is readable.
pub(crate) fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the
    // registration.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.map_err(Into::into)
}
