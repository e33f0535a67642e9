//! Having boxes made.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use sandbar_core::{Error, Result, RootRights, SessionId};

use super::spawner::Spawner;
use crate::{
    boxed::{InitLink, LinkSockets, wait_until_ready},
    cgroup::SessionGroups,
    protocol::{BoxOrder, InitMode, RootPlace, SpawnerRequest, StartOrder, TrustOrder, UserPlace, send_frame},
};

/// What a box is made from, beside its cgroups.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) mode: InitMode,
    pub(crate) root: RootPlace,
    /// The tree or the directory, unless the root is a path.
    pub(crate) root_handle: Option<OwnedFd>,
    pub(crate) path: CString,
    pub(crate) user: UserPlace,
    pub(crate) owners: Option<BorrowedFd<'a>>,
    pub(crate) first_owner: u32,
    pub(crate) devices: Option<OwnedFd>,
    pub(crate) hostname: CString,
    pub(crate) trust: Option<TrustOrder>,
    /// A network made ahead. Not for a box that was prepared, which has one.
    pub(crate) network: Option<BorrowedFd<'a>>,
    pub(crate) rights: RootRights,
    pub(crate) skip_pids: u64,
}

/// A box that may still be setting itself up.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) link: InitLink,
    /// The user namespace of a box that has the caller as its only user, and the network in it.
    pub(crate) namespaces: Option<[OwnedFd; 2]>,
}

/// Orders the box and returns the conversation with its init.
pub(crate) fn launch(
    spawner: &Spawner,
    session: &SessionId,
    groups: Option<&SessionGroups>,
    wanted: Launch<'_>,
) -> Result<Launched> {
    let failed = |error: io::Error| Error::io(format!("make the sandbox of session `{session}`"), error);
    let LinkSockets { ours, theirs } = LinkSockets::pair().map_err(failed)?;
    let start = Start::of(groups, wanted.network).map_err(failed)?;
    let is_callers = wanted.user == UserPlace::Caller;
    let (order, passed) = wanted.order(groups).map_err(failed)?;
    let descriptors: Vec<_> = start.descriptors(&theirs).chain(passed.descriptors()).collect();
    let request = SpawnerRequest::Box(start.order(), order);
    let namespaces = if is_callers {
        Some(spawner.order_as_caller(&request, &descriptors).map_err(failed)?)
    } else {
        spawner.order(&request, &descriptors).map_err(failed)?;
        None
    };
    drop(descriptors);
    drop(theirs);
    Ok(Launched { link: listen(ours, session, groups)?, namespaces })
}

/// Orders a walled box for a session to come and returns once it waits.
pub(super) fn prepare(
    spawner: &Spawner,
    groups: Option<&SessionGroups>,
    network: BorrowedFd<'_>,
) -> Result<[UnixStream; 2]> {
    let failed = |error: io::Error| Error::io("prepare a sandbox", error);
    let LinkSockets { ours, theirs } = LinkSockets::pair().map_err(failed)?;
    let start = Start::of(groups, Some(network)).map_err(failed)?;
    let descriptors: Vec<_> = start.descriptors(&theirs).collect();
    spawner.order(&SpawnerRequest::Prepare(start.order()), &descriptors).map_err(failed)?;
    drop(descriptors);
    drop(theirs);
    wait_until_ready(&ours)?;
    Ok(ours)
}

/// Tells a box that was prepared what it is to become, as [`launch`] does with a new one.
pub(super) fn furnish(
    sockets: [UnixStream; 2],
    session: &SessionId,
    groups: Option<&SessionGroups>,
    wanted: Launch<'_>,
) -> Result<Launched> {
    let failed = |error: io::Error| Error::io(format!("make the sandbox of session `{session}`"), error);
    let (order, passed) = wanted.order(groups).map_err(failed)?;
    let descriptors: Vec<_> = passed.descriptors().collect();
    let [orders, _] = &sockets;
    send_frame(orders.as_fd(), &order.encode(), &descriptors).map_err(failed)?;
    drop(descriptors);
    Ok(Launched { link: listen(sockets, session, groups)?, namespaces: None })
}

fn listen(sockets: [UnixStream; 2], session: &SessionId, groups: Option<&SessionGroups>) -> Result<InitLink> {
    match groups {
        // Init must have gone to its room first.
        Some(groups) if groups.has_rooms() => {
            let link = InitLink::open(sockets)?;
            groups
                .open_for_commands()
                .map_err(|error| Error::io(format!("make the sandbox of session `{session}`"), error))?;
            Ok(link)
        }
        _ => InitLink::begin(sockets),
    }
}

/// What a box begins with, beside its sockets.
struct Start<'a> {
    entrance: Option<BorrowedFd<'a>>,
    doors: Vec<OwnedFd>,
    network: Option<BorrowedFd<'a>>,
}

impl<'a> Start<'a> {
    fn of(groups: Option<&'a SessionGroups>, network: Option<BorrowedFd<'a>>) -> io::Result<Self> {
        Ok(Self {
            network,
            entrance: groups.map(SessionGroups::entrance).transpose()?,
            doors: groups.map_or_else(|| Ok(Vec::new()), SessionGroups::early_doors)?,
        })
    }

    fn order(&self) -> StartOrder {
        StartOrder { group: self.entrance.is_some(), attach: count(&self.doors), network: self.network.is_some() }
    }

    fn descriptors<'b>(&'b self, sockets: &'b [UnixStream; 2]) -> impl Iterator<Item = BorrowedFd<'b>> {
        let doors = self.doors.iter().map(AsFd::as_fd);
        sockets.iter().map(AsFd::as_fd).chain(self.entrance).chain(doors).chain(self.network)
    }
}

/// What a box is given with its order.
struct Passed<'a> {
    root: Option<OwnedFd>,
    owners: Option<BorrowedFd<'a>>,
    room: Option<OwnedFd>,
    doors: Vec<OwnedFd>,
    devices: Option<OwnedFd>,
}

impl Passed<'_> {
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let root = self.root.iter().map(AsFd::as_fd);
        let last = self.room.iter().chain(&self.doors).chain(&self.devices).map(AsFd::as_fd);
        root.chain(self.owners).chain(last)
    }
}

impl<'a> Launch<'a> {
    fn order(self, groups: Option<&SessionGroups>) -> io::Result<(BoxOrder, Passed<'a>)> {
        let passed = Passed {
            root: self.root_handle,
            owners: self.owners,
            room: groups.and_then(|groups| groups.room().transpose()).transpose()?,
            doors: groups.map_or_else(|| Ok(Vec::new()), SessionGroups::late_doors)?,
            devices: self.devices,
        };
        let order = BoxOrder {
            mode: self.mode,
            root: self.root,
            user: self.user,
            room: passed.room.is_some(),
            attach: count(&passed.doors),
            hostname: self.hostname,
            first_owner: self.first_owner,
            path: self.path,
            trust: self.trust,
            rights: self.rights,
            skip_pids: self.skip_pids,
        };
        Ok((order, passed))
    }
}

fn count(doors: &[OwnedFd]) -> u8 {
    u8::try_from(doors.len()).unwrap_or_default()
}
