//! Waiting until a descriptor can be read.

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Lets tasks wait for what comes out of a descriptor that does not block.
pub(crate) fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the registration.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.map_err(Into::into)
}
