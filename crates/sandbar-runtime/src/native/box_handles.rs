//! Descriptors a box is created with.

#![expect(
    unsafe_code,
    reason = "`close_range` and `dup2` act on descriptors by number"
)]

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use crate::{
    init::InitSockets,
    protocol::{BoxOrder, BoxRoot, BoxUsers, Connection, InitMode, StartOrder},
};

/// Descriptors that belong to a [`StartOrder`].
#[derive(Debug)]
pub(super) struct StartHandles {
    pub(super) sockets: InitSockets,
    /// Directory of the session's v2 group.
    pub(super) cgroup: Option<OwnedFd>,
    /// `cgroup.procs` of v1 groups to enter.
    pub(super) procs: Vec<OwnedFd>,
    /// Network namespace created before the box.
    pub(super) network: Option<OwnedFd>,
    /// Pipe that the box waits on before its first step. The spawner opens the new namespaces
    /// meanwhile and then closes the other end.
    pub(super) start_gate: Option<OwnedFd>,
}

impl StartHandles {
    pub(super) fn take(order: StartOrder, connection: &mut Connection) -> io::Result<Self> {
        let mut next = || connection.descriptor();
        Ok(Self {
            sockets: InitSockets {
                orders: next()?,
                events: next()?,
            },
            cgroup: order.group.then(&mut next).transpose()?,
            procs: (0..order.procs_count)
                .map(|_| next())
                .collect::<io::Result<_>>()?,
            network: order.network.then(&mut next).transpose()?,
            start_gate: None,
        })
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let sockets = [&self.sockets.orders, &self.sockets.events];
        let others = [&self.cgroup, &self.network, &self.start_gate]
            .into_iter()
            .flatten()
            .chain(&self.procs);
        others.chain(sockets).map(AsRawFd::as_raw_fd)
    }
}

/// Descriptors that belong to a [`BoxOrder`].
#[derive(Debug)]
pub(super) struct OrderHandles {
    pub(super) root: Option<OwnedFd>,
    /// User namespace of the box.
    pub(super) owners: Option<OwnedFd>,
    /// `cgroup.procs` of init's leaf group, entered last.
    pub(super) init_leaf: Option<OwnedFd>,
    /// Detached mount of `/dev`.
    pub(super) devices: Option<OwnedFd>,
}

impl OrderHandles {
    pub(super) fn take(order: &BoxOrder, connection: &mut Connection) -> io::Result<Self> {
        let mut next = |wanted: bool| {
            if wanted {
                connection.descriptor().map(Some)
            } else {
                Ok(None)
            }
        };
        Ok(Self {
            root: next(order.root != BoxRoot::Directory)?,
            owners: next(order.user == BoxUsers::Namespace)?,
            init_leaf: next(order.init_leaf)?,
            devices: next(order.mode == InitMode::Unisolated && order.root == BoxRoot::Mount)?,
        })
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let single = [&self.root, &self.owners, &self.init_leaf, &self.devices];
        single.into_iter().flatten().map(AsRawFd::as_raw_fd)
    }
}

/// Closes every descriptor a forked copy of the spawner inherited, except `kept`, and points stderr
/// to `/dev/null` as 0 and 1 already do.
pub(super) fn close_all_but(kept: impl Iterator<Item = RawFd>) {
    let mut kept: Vec<u32> = kept
        .filter_map(|number| u32::try_from(number).ok())
        .collect();
    kept.sort_unstable();
    let mut from = 3;
    for number in kept.into_iter().chain([u32::MAX]) {
        if from < number {
            // SAFETY: this forked process never returns to the spawner's code, so nothing uses the
            // descriptors that are closed here.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number.saturating_add(1);
    }
    // SAFETY: the spawner has `/dev/null` as 0.
    unsafe { libc::dup2(0, 2) };
}
