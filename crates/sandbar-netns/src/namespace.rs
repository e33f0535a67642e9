//! Making network namespaces, and working in them.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    thread,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::{
    link::{link_with, raise, raise_loopback},
    routes::{self, has_ipv6},
};

/// A namespace with nothing but its loopback, which works.
pub fn make() -> io::Result<OwnedFd> {
    on_scratch_thread(|| {
        // SAFETY: the network only, of a thread of our own.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        raise_loopback()?;
        current()
    })
}

/// A session whose network stack is not the kernel's own: what it sends comes over a link to a namespace of the gate's.
#[derive(Debug)]
pub struct LinkedNetwork {
    /// Where the session is. Its end of the link has an address, and a way to everywhere.
    pub session: OwnedFd,
    /// Where the gate is to be opened.
    pub gate: OwnedFd,
}

impl LinkedNetwork {
    pub fn make() -> io::Result<Self> {
        let session = make()?;
        let gate = make()?;
        let session_end = in_namespace(&gate, || {
            let [gate_end, session_end] = link_with(session.as_fd())?;
            raise(gate_end)?;
            routes::make_everything_local_but_the_session(gate_end, has_ipv6())?;
            Ok(session_end)
        })?;
        in_namespace(&session, || {
            raise(session_end)?;
            routes::lead_to_the_gate(session_end, has_ipv6())
        })?;
        Ok(Self { session, gate })
    }
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
