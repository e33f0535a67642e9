//! Mounting with the owners of a sandbox, where kernel and file system can.

use std::io;

use sandbar_core::{Error, OwnerMap, Result};

use crate::ActingOwner;

/// What a mounted volume was asked to be mounted with, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveMount {
    /// The first owner of the map.
    asked: Option<u32>,
    pub(crate) translated: bool,
}

impl LiveMount {
    pub(crate) fn new(owners: Option<&OwnerMap>, translated: bool) -> Self {
        Self { asked: owners.map(OwnerMap::first), translated }
    }

    /// Whether it is what mounting with these owners would give.
    pub(crate) fn is_for(&self, owners: Option<&OwnerMap>) -> bool {
        self.asked == owners.map(OwnerMap::first)
    }
}

/// Runs `mount` with the owners; when these are refused, without. Returns whether owners are translated. `undo` takes back
/// what a `mount` that failed has done.
///
/// FUSE cannot translate, nor can overlayfs itself, for a base that lies on one; Linux before 6.15 cannot make an overlay
/// of layers that do. A failure of another kind is one, and no reason to show wrong owners.
pub(crate) fn translate_where_possible(
    owners: Option<&OwnerMap>,
    mount: impl Fn(Option<&OwnerMap>) -> Result<()>,
    undo: impl Fn() -> Result<()>,
) -> Result<bool> {
    let attempt = |owners: Option<&OwnerMap>| {
        // An overlay works in the name of whoever mounts it, and has to find a place in its layers.
        let acting = owners.map(ActingOwner::root_of).transpose()?;
        let outcome = mount(owners);
        drop(acting);
        outcome.or_else(|error| undo().and(Err(error)))
    };
    if owners.is_some() {
        match attempt(owners) {
            Ok(()) => return Ok(true),
            Err(error) if is_refusal(&error) => {
                tracing::info!(reason = error.chain(), "a session is mounted without translated owners");
            }
            Err(error) => return Err(error),
        }
    }
    attempt(None).map(|()| false)
}

fn is_refusal(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    let refusals = [libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP, libc::EPERM];
    cause.and_then(io::Error::raw_os_error).is_some_and(|errno| refusals.contains(&errno))
}
