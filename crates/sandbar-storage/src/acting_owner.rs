//! Making files for a sandbox from outside of it.

#![expect(unsafe_code, reason = "rustix has no `setfsuid`")]

use std::marker::PhantomData;

use rustix::{
    process::getgroups,
    thread::{CapabilitySet, CapabilitySets, Gid, capabilities, set_capabilities, set_thread_groups},
};
use sandbar_core::{Error, ErrorCode, OwnerMap, Result};

/// While it lives, what the calling thread makes belongs to a user of a sandbox.
///
/// A mount that translates owners has no place for those outside its map: what the host's own root makes there is
/// refused with `EOVERFLOW`. The thread keeps its capabilities, so that it reaches everything as before.
///
/// The kernel takes a change of this kind as a reason to write no core dumps of the process from then on.
#[derive(Debug)]
pub struct ActingOwner {
    user: u32,
    group: u32,
    capabilities: CapabilitySets,
    /// What it changes belongs to the thread, and so does what undoes it.
    of_this_thread: PhantomData<*const ()>,
}

impl ActingOwner {
    pub fn root_of(owners: &OwnerMap) -> Result<Self> {
        Self::on_host(owners.on_host(0), owners.on_host(0))
    }

    /// The user and group a tree is mounted with: the numbers of the host.
    pub fn on_host(wanted_user: u32, wanted_group: u32) -> Result<Self> {
        let failed = |errno: rustix::io::Errno| Error::io("act as a user of a sandbox", errno.into());
        let capabilities = capabilities(None).map_err(failed)?;
        let (group, user) = (set_group(wanted_group), set_user(wanted_user));
        // Undoes everything when one of the steps below fails.
        let acting = Self { user, group, capabilities, of_this_thread: PhantomData };
        if (set_group(UNCHANGED), set_user(UNCHANGED)) != (wanted_group, wanted_user) {
            return Err(Error::new(ErrorCode::PermissionDenied, "this process may not act as the users of a sandbox")
                .with_hint("run it as root, with CAP_SETUID and CAP_SETGID"));
        }
        // The kernel took away those that reach the files of others.
        set_capabilities(None, capabilities).map_err(failed)?;
        Ok(acting)
    }
}

impl Drop for ActingOwner {
    fn drop(&mut self) {
        set_user(self.user);
        set_group(self.group);
        if let Err(errno) = set_capabilities(None, self.capabilities) {
            tracing::error!(%errno, "could not take back a thread's capabilities");
        }
    }
}

/// While it lives, the calling thread reaches files with the rights others have, and no more.
#[derive(Debug)]
pub(crate) struct ActingStranger {
    user: u32,
    group: u32,
    groups: Vec<Gid>,
    capabilities: CapabilitySets,
    of_this_thread: PhantomData<*const ()>,
}

impl ActingStranger {
    /// No file has this owner.
    const STRANGER: u32 = u32::MAX - 2;

    /// Capabilities over files of others.
    const OVER_FILES: CapabilitySet = CapabilitySet::CHOWN
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::DAC_READ_SEARCH)
        .union(CapabilitySet::FOWNER)
        .union(CapabilitySet::FSETID);

    pub(crate) fn start() -> Result<Self> {
        let failed = |errno: rustix::io::Errno| Error::io("give up rights over files", errno.into());
        let capabilities = capabilities(None).map_err(failed)?;
        let groups = getgroups().map_err(failed)?;
        let (group, user) = (set_group(Self::STRANGER), set_user(Self::STRANGER));
        // Undoes everything when one of the steps below fails.
        let acting = Self { user, group, groups, capabilities, of_this_thread: PhantomData };
        if (set_group(UNCHANGED), set_user(UNCHANGED)) != (Self::STRANGER, Self::STRANGER) {
            return Err(Error::new(ErrorCode::PermissionDenied, "this process may not give up its rights over files")
                .with_hint("run it as root, with CAP_SETUID and CAP_SETGID"));
        }
        set_thread_groups(&[]).map_err(failed)?;
        let effective = capabilities.effective.difference(Self::OVER_FILES);
        set_capabilities(None, CapabilitySets { effective, ..capabilities }).map_err(failed)?;
        Ok(acting)
    }
}

impl Drop for ActingStranger {
    fn drop(&mut self) {
        set_user(self.user);
        set_group(self.group);
        let groups = set_thread_groups(&self.groups);
        if let Err(errno) = groups.and_then(|()| set_capabilities(None, self.capabilities)) {
            tracing::error!(%errno, "could not take back a thread's rights");
        }
    }
}

/// No user has this number: setting it changes nothing and tells the one there is.
const UNCHANGED: u32 = u32::MAX;

/// Sets whom the thread's files belong to; returns whom they belonged to before. A refusal changes nothing.
fn set_user(user: u32) -> u32 {
    // SAFETY: only numbers are passed. It concerns the calling thread alone, unlike `setuid`.
    unsafe { libc::setfsuid(user) }.cast_unsigned()
}

fn set_group(group: u32) -> u32 {
    // SAFETY: as in `set_user`.
    unsafe { libc::setfsgid(group) }.cast_unsigned()
}
