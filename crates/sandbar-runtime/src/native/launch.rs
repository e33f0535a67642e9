//! Having the spawner make a box.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use sandbar_core::{Error, Result, SessionId};

use super::spawner::Spawner;
use crate::{
    boxed::{InitLink, LinkSockets},
    cgroup::SessionGroups,
    protocol::{BoxOrder, InitMode, RootPlace, UserPlace},
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
}

/// Orders the box and returns the conversation with its init, which may still be setting it up.
pub(crate) fn launch(
    spawner: &Spawner,
    session: &SessionId,
    groups: Option<&SessionGroups>,
    wanted: Launch<'_>,
) -> Result<InitLink> {
    let failed = |error: io::Error| Error::io(format!("make the sandbox of session `{session}`"), error);
    let LinkSockets { ours, theirs } = LinkSockets::pair().map_err(failed)?;
    let doors = groups.map_or_else(|| Ok(Vec::new()), SessionGroups::init_doors).map_err(failed)?;
    let entrance = groups.map(SessionGroups::entrance).transpose().map_err(failed)?;
    let room = groups.and_then(|groups| groups.room().transpose()).transpose().map_err(failed)?;
    let order = BoxOrder {
        mode: wanted.mode,
        root: wanted.root,
        user: wanted.user,
        group: groups.is_some(),
        room: room.is_some(),
        attach: u8::try_from(doors.len()).unwrap_or_default(),
        hostname: wanted.hostname,
        first_owner: wanted.first_owner,
        path: wanted.path,
    };
    let descriptors: Vec<BorrowedFd<'_>> = theirs
        .iter()
        .map(AsFd::as_fd)
        .chain(wanted.root_handle.as_ref().map(AsFd::as_fd))
        .chain(wanted.owners)
        .chain(entrance)
        .chain(room.as_ref().map(AsFd::as_fd))
        .chain(doors.iter().map(AsFd::as_fd))
        .chain(wanted.devices.as_ref().map(AsFd::as_fd))
        .collect();
    spawner.make_box(order, &descriptors).map_err(failed)?;
    drop(descriptors);
    drop(theirs);
    match groups {
        // Init must have gone to its room first.
        Some(groups) if groups.has_rooms() => {
            let link = InitLink::open(ours)?;
            groups.open_for_commands().map_err(failed)?;
            Ok(link)
        }
        _ => InitLink::begin(ours),
    }
}
