//! ID-mapped mounts where kernel and file system support them.

use std::io;

use sandbar_core::{Error, OwnerMap, Result};
use sandbar_tree::ActingOwner;

/// Requested owners of a mounted volume, and whether they are in effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveMount {
    /// First host id of the map.
    asked: Option<u32>,
    pub(crate) translated: bool,
}

impl LiveMount {
    pub(crate) fn new(owners: Option<&OwnerMap>, translated: bool) -> Self {
        Self {
            asked: owners.map(OwnerMap::first),
            translated,
        }
    }

    /// Returns whether mounting with these owners would give the same mount.
    pub(crate) fn is_for(&self, owners: Option<&OwnerMap>) -> bool {
        self.asked == owners.map(OwnerMap::first)
    }
}

/// Runs `mount` with the owners; if the kernel refuses them, without. Returns whether owners are
/// translated. `undo` reverts a failed `mount`.
///
/// FUSE and overlayfs do not support ID-mapped mounts, and Linux before 6.15 cannot stack an
/// overlay on ID-mapped layers. Other errors are returned: they are no reason to mount with wrong
/// owners.
pub(crate) fn translate_where_possible(
    owners: Option<&OwnerMap>,
    mount: impl Fn(Option<&OwnerMap>) -> Result<()>,
    undo: impl Fn() -> Result<()>,
) -> Result<bool> {
    let attempt = |owners: Option<&OwnerMap>| {
        // An overlay accesses its layers with the credentials of its mounter, which must be inside
        // the map.
        let acting = owners.map(ActingOwner::root_of).transpose()?;
        let outcome = mount(owners);
        drop(acting);
        outcome.or_else(|error| undo().and(Err(error)))
    };
    if owners.is_some() {
        match attempt(owners) {
            Ok(()) => return Ok(true),
            Err(error) if is_refusal(&error) => {
                tracing::info!(
                    reason = error.chain(),
                    "mounted a session without ID-mapped owners"
                );
            }
            Err(error) => return Err(error),
        }
    }
    attempt(None).map(|()| false)
}

fn is_refusal(error: &Error) -> bool {
    let cause =
        std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    // `EACCES`: FUSE daemons check the fsuid themselves, and our directories are closed to it. The
    // attempt without owners fails as well where access really is missing.
    let refusals = [
        libc::EINVAL,
        libc::ENOSYS,
        libc::EOPNOTSUPP,
        libc::EPERM,
        libc::EACCES,
    ];
    cause
        .and_then(io::Error::raw_os_error)
        .is_some_and(|errno| refusals.contains(&errno))
}
