//! File-system credentials of a thread: as a user of a sandbox, or without privileges.

#![expect(unsafe_code, reason = "rustix has no `setfsuid`")]

use std::marker::PhantomData;

use rustix::{
    process::getgroups,
    thread::{
        CapabilitySet, CapabilitySets, Gid, capabilities, set_capabilities, set_thread_groups,
    },
};
use sandbar_core::{Error, ErrorCode, OwnerMap, Result};

/// Guard under which files the calling thread creates belong to a user of a sandbox.
///
/// It sets the thread's fsuid and fsgid. An ID-mapped mount refuses owners outside its map: without
/// the guard, host root gets `EOVERFLOW` when it creates a file there. The thread keeps its
/// capabilities and with them its access to all files.
///
/// Changing the fsuid makes the kernel mark the process as not dumpable: it writes no core dumps
/// from then on.
#[derive(Debug)]
pub struct ActingOwner {
    user: u32,
    group: u32,
    capabilities: CapabilitySets,
    /// Credentials are per thread, so the guard must be dropped on the thread that created it.
    of_this_thread: PhantomData<*const ()>,
}

impl ActingOwner {
    pub fn root_of(owners: &OwnerMap) -> Result<Self> {
        Self::on_host(owners.on_host(0), owners.on_host(0))
    }

    /// Takes the uid and gid as the host sees them.
    pub fn on_host(wanted_user: u32, wanted_group: u32) -> Result<Self> {
        let failed =
            |errno: rustix::io::Errno| Error::io("act as a user of a sandbox", errno.into());
        let capabilities = capabilities(None).map_err(failed)?;
        let (group, user) = (set_group(wanted_group), set_user(wanted_user));
        // Restores everything when one of the steps below fails.
        let acting = Self {
            user,
            group,
            capabilities,
            of_this_thread: PhantomData,
        };
        if (set_group(UNCHANGED), set_user(UNCHANGED)) != (wanted_group, wanted_user) {
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                "this process may not set its fsuid and fsgid to a user of a sandbox",
            )
            .with_hint("run it as root, with CAP_SETUID and CAP_SETGID"));
        }
        // `setfsuid` to a user other than root clears the file capabilities, such as
        // CAP_DAC_OVERRIDE.
        set_capabilities(None, capabilities).map_err(failed)?;
        Ok(acting)
    }
}

impl Drop for ActingOwner {
    fn drop(&mut self) {
        set_user(self.user);
        set_group(self.group);
        if let Err(errno) = set_capabilities(None, self.capabilities) {
            tracing::error!(%errno, "could not restore the capabilities of a thread");
        }
    }
}

/// Guard under which the calling thread has only the permissions of "other" on files: an fsuid and
/// fsgid that own nothing, no supplementary groups, no file capabilities.
#[derive(Debug)]
pub struct ActingUnprivileged {
    user: u32,
    group: u32,
    groups: Vec<Gid>,
    capabilities: CapabilitySets,
    of_this_thread: PhantomData<*const ()>,
}

impl ActingUnprivileged {
    /// Uid and gid that no file has.
    const UNUSED_ID: u32 = u32::MAX - 2;

    /// Capabilities that override file permissions.
    const OVER_FILES: CapabilitySet = CapabilitySet::CHOWN
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::DAC_READ_SEARCH)
        .union(CapabilitySet::FOWNER)
        .union(CapabilitySet::FSETID);

    pub fn start() -> Result<Self> {
        let failed = |errno: rustix::io::Errno| Error::io("drop file privileges", errno.into());
        let capabilities = capabilities(None).map_err(failed)?;
        let groups = getgroups().map_err(failed)?;
        let (group, user) = (set_group(Self::UNUSED_ID), set_user(Self::UNUSED_ID));
        // Restores everything when one of the steps below fails.
        let acting = Self {
            user,
            group,
            groups,
            capabilities,
            of_this_thread: PhantomData,
        };
        if (set_group(UNCHANGED), set_user(UNCHANGED)) != (Self::UNUSED_ID, Self::UNUSED_ID) {
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                "this process may not set its fsuid and fsgid to an unprivileged user",
            )
            .with_hint("run it as root, with CAP_SETUID and CAP_SETGID"));
        }
        set_thread_groups(&[]).map_err(failed)?;
        let effective = capabilities.effective.difference(Self::OVER_FILES);
        set_capabilities(
            None,
            CapabilitySets {
                effective,
                ..capabilities
            },
        )
        .map_err(failed)?;
        Ok(acting)
    }
}

impl Drop for ActingUnprivileged {
    fn drop(&mut self) {
        set_user(self.user);
        set_group(self.group);
        let groups = set_thread_groups(&self.groups);
        if let Err(errno) = groups.and_then(|()| set_capabilities(None, self.capabilities)) {
            tracing::error!(%errno, "could not restore the credentials of a thread");
        }
    }
}

/// Invalid id: setting it changes nothing, and the call returns the current one.
const UNCHANGED: u32 = u32::MAX;

/// Sets the thread's fsuid and returns the previous one. The kernel ignores a value it does not
/// permit.
fn set_user(user: u32) -> u32 {
    // SAFETY: passes only a number, and changes the calling thread alone, unlike `setuid`.
    unsafe { libc::setfsuid(user) }.cast_unsigned()
}

fn set_group(group: u32) -> u32 {
    // SAFETY: as in `set_user`.
    unsafe { libc::setfsgid(group) }.cast_unsigned()
}
