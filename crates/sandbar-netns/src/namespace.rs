//! Creating network namespaces, and running code in them.

#![expect(unsafe_code, reason = "`unshare` affects the whole thread")]

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

/// Creates a namespace that has only a loopback interface, which is up.
pub fn create() -> io::Result<OwnedFd> {
    on_scratch_thread(|| {
        // SAFETY: unshares the network namespace of a new thread only.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        raise_loopback()?;
        current()
    })
}

/// Two namespaces joined by a veth pair, for a box with a network stack of its own: its packets
/// cross the pair to the namespace of the listeners.
#[derive(Debug)]
pub struct LinkedNetwork {
    /// Namespace of the box. Its end of the pair has an address and a default route.
    pub box_side: OwnedFd,
    /// Namespace to open the listeners in.
    pub host_side: OwnedFd,
}

impl LinkedNetwork {
    pub fn create() -> io::Result<Self> {
        let box_side = create()?;
        let host_side = create()?;
        let box_end = in_namespace(&host_side, || {
            let [host_end, box_end] = link_with(box_side.as_fd())?;
            raise(host_end)?;
            routes::make_all_but_box_local(host_end, has_ipv6())?;
            Ok(box_end)
        })?;
        in_namespace(&box_side, || {
            raise(box_end)?;
            routes::route_all_to_host_side(box_end, has_ipv6())
        })?;
        Ok(Self {
            box_side,
            host_side,
        })
    }
}

/// Opens the network namespace of the calling thread.
pub fn current() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Runs `work` in a namespace, on a temporary thread.
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
        let scratch = thread::Builder::new()
            .name("namespace".into())
            .spawn_scoped(scope, work)?;
        scratch
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("thread in a network namespace panicked")))
    })
}
