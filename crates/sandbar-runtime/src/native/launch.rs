//! Host side of creating a box through the spawner.

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
    cgroup::SessionGroups,
    protocol::{
        BoxOrder, BoxRoot, BoxUsers, InitMode, SpawnerRequest, StartOrder, TrustOrder, send_frame,
    },
    sandbox::{InitLink, LinkSockets, wait_until_ready},
};

/// Parameters of a box, apart from its cgroups.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) mode: InitMode,
    pub(crate) root: BoxRoot,
    /// The root, unless it is [`BoxRoot::Directory`].
    pub(crate) root_handle: Option<OwnedFd>,
    pub(crate) path: CString,
    pub(crate) user: BoxUsers,
    pub(crate) owners: Option<BorrowedFd<'a>>,
    pub(crate) first_owner: u32,
    pub(crate) devices: Option<OwnedFd>,
    pub(crate) hostname: CString,
    pub(crate) trust: Option<TrustOrder>,
    /// Network namespace for a new box. A prepared box already has one.
    pub(crate) network: Option<BorrowedFd<'a>>,
    pub(crate) rights: RootRights,
    pub(crate) skip_pids: u64,
    /// Memory and CPUs that the box sees, if limited.
    pub(crate) visible_memory: Option<u64>,
    pub(crate) visible_cpus: Option<u64>,
}

/// A box whose setup may still be running.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) link: InitLink,
    /// User and network namespace of a [`BoxUsers::Caller`] box.
    pub(crate) namespaces: Option<[OwnedFd; 2]>,
}

/// Creates a box and connects to its init.
pub(crate) fn launch(
    spawner: &Spawner,
    session: &SessionId,
    groups: Option<&SessionGroups>,
    wanted: Launch<'_>,
) -> Result<Launched> {
    let failed =
        |error: io::Error| Error::io(format!("create the sandbox of session `{session}`"), error);
    let LinkSockets { ours, theirs } = LinkSockets::pair().map_err(failed)?;
    let start = Start::of(groups, wanted.network).map_err(failed)?;
    let has_caller_namespace = wanted.user == BoxUsers::Caller;
    let (order, passed) = wanted.order(groups).map_err(failed)?;
    let descriptors: Vec<_> = start
        .descriptors(&theirs)
        .chain(passed.descriptors())
        .collect();
    let request = SpawnerRequest::Box(start.order(), order);
    let namespaces = if has_caller_namespace {
        Some(
            spawner
                .order_as_caller(&request, &descriptors)
                .map_err(failed)?,
        )
    } else {
        spawner.order(&request, &descriptors).map_err(failed)?;
        None
    };
    drop(descriptors);
    drop(theirs);
    Ok(Launched {
        link: listen(ours, session, groups)?,
        namespaces,
    })
}

/// Creates a native box before a session needs it, and returns once it waits for its order.
pub(super) fn prepare(
    spawner: &Spawner,
    groups: Option<&SessionGroups>,
    network: BorrowedFd<'_>,
) -> Result<[UnixStream; 2]> {
    let failed = |error: io::Error| Error::io("prepare a sandbox", error);
    let LinkSockets { ours, theirs } = LinkSockets::pair().map_err(failed)?;
    let start = Start::of(groups, Some(network)).map_err(failed)?;
    let descriptors: Vec<_> = start.descriptors(&theirs).collect();
    spawner
        .order(&SpawnerRequest::Prepare(start.order()), &descriptors)
        .map_err(failed)?;
    drop(descriptors);
    drop(theirs);
    wait_until_ready(&ours)?;
    Ok(ours)
}

/// Assigns a prepared box to a session, with the same result as [`launch`].
pub(super) fn assign(
    sockets: [UnixStream; 2],
    session: &SessionId,
    groups: Option<&SessionGroups>,
    wanted: Launch<'_>,
) -> Result<Launched> {
    let failed =
        |error: io::Error| Error::io(format!("create the sandbox of session `{session}`"), error);
    let (order, passed) = wanted.order(groups).map_err(failed)?;
    let descriptors: Vec<_> = passed.descriptors().collect();
    let [orders, _] = &sockets;
    send_frame(orders.as_fd(), &order.encode(), &descriptors).map_err(failed)?;
    drop(descriptors);
    Ok(Launched {
        link: listen(sockets, session, groups)?,
        namespaces: None,
    })
}

fn listen(
    sockets: [UnixStream; 2],
    session: &SessionId,
    groups: Option<&SessionGroups>,
) -> Result<InitLink> {
    match groups {
        // v2 allows controllers for child groups only after init has moved to its leaf group.
        Some(groups) if groups.has_leaf_groups() => {
            let link = InitLink::open(sockets)?;
            groups.enable_controllers().map_err(|error| {
                Error::io(format!("create the sandbox of session `{session}`"), error)
            })?;
            Ok(link)
        }
        _ => InitLink::connect(sockets),
    }
}

/// Descriptors of a [`StartOrder`], apart from the sockets.
struct Start<'a> {
    cgroup: Option<BorrowedFd<'a>>,
    v1_procs: Vec<OwnedFd>,
    network: Option<BorrowedFd<'a>>,
}

impl<'a> Start<'a> {
    fn of(groups: Option<&'a SessionGroups>, network: Option<BorrowedFd<'a>>) -> io::Result<Self> {
        Ok(Self {
            network,
            cgroup: groups.map(SessionGroups::start_group).transpose()?,
            v1_procs: groups.map_or_else(|| Ok(Vec::new()), SessionGroups::v1_procs)?,
        })
    }

    fn order(&self) -> StartOrder {
        StartOrder {
            group: self.cgroup.is_some(),
            procs_count: count(&self.v1_procs),
            network: self.network.is_some(),
        }
    }

    fn descriptors<'b>(
        &'b self,
        sockets: &'b [UnixStream; 2],
    ) -> impl Iterator<Item = BorrowedFd<'b>> {
        let procs = self.v1_procs.iter().map(AsFd::as_fd);
        sockets
            .iter()
            .map(AsFd::as_fd)
            .chain(self.cgroup)
            .chain(procs)
            .chain(self.network)
    }
}

/// Descriptors of a [`BoxOrder`].
struct Passed<'a> {
    root: Option<OwnedFd>,
    owners: Option<BorrowedFd<'a>>,
    init_leaf: Option<OwnedFd>,
    devices: Option<OwnedFd>,
}

impl Passed<'_> {
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let root = self.root.iter().map(AsFd::as_fd);
        let last = self.init_leaf.iter().chain(&self.devices).map(AsFd::as_fd);
        root.chain(self.owners).chain(last)
    }
}

impl<'a> Launch<'a> {
    fn order(self, groups: Option<&SessionGroups>) -> io::Result<(BoxOrder, Passed<'a>)> {
        let passed = Passed {
            root: self.root_handle,
            owners: self.owners,
            init_leaf: groups
                .and_then(|groups| groups.init_leaf_procs().transpose())
                .transpose()?,
            devices: self.devices,
        };
        let order = BoxOrder {
            mode: self.mode,
            root: self.root,
            user: self.user,
            init_leaf: passed.init_leaf.is_some(),
            hostname: self.hostname,
            first_owner: self.first_owner,
            path: self.path,
            trust: self.trust,
            rights: self.rights,
            skip_pids: self.skip_pids,
            visible_memory: self.visible_memory,
            visible_cpus: self.visible_cpus,
        };
        Ok((order, passed))
    }
}

fn count(descriptors: &[OwnedFd]) -> u8 {
    u8::try_from(descriptors.len()).unwrap_or_default()
}
