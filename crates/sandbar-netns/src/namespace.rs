//! Making network namespaces, and working in them.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    thread,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::link::raise_loopback;

/// A namespace with nothing but its loopback, which works.
pub fn make() -> io::Result<OwnedFd> {
    on_scratch_thread(|| {
        // SAFETY: the network only, of a thread of our own.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        raise_loopback()?;
        current()
    })
}

/// The namespace of the calling thread.
pub fn current() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Does something in a namespace, on a thread that ends with it.
pub fn in_namespace<T: Send>(
    namespace: impl AsFd + Sync,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    on_scratch_thread(|| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    })
}

fn on_scratch_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let scratch = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, work)?;
        scratch.join().unwrap_or_else(|_| Err(io::Error::other("the thread that works in a namespace panicked")))
    })
}
