//! The mounted tree of a session, and who its owners are there.

use std::{path::PathBuf, sync::Arc};

use sandbar_core::{OwnerMap, Result, SessionId};
use sandbar_storage::ActingOwner;

use crate::host::Inner;

/// A session's tree in the mount namespace of the host.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// The map the tree was mounted with. `None`: its owners are those on disk.
    pub(super) owners: Option<Arc<OwnerMap>>,
}

impl Root {
    /// Mounts the tree for the runtime of this host.
    pub(super) fn mount(inner: &Inner, session: &SessionId) -> Result<Self> {
        let owners = inner.runtime.owners()?;
        let mounted = inner.storage.mount_as(session, owners.as_deref())?;
        Ok(Self { path: mounted.root, owners: owners.filter(|_| mounted.translated) })
    }

    /// While it lives, what the calling thread makes in the tree belongs to the root user of the sandbox.
    pub(super) fn act(&self) -> Result<Option<ActingOwner>> {
        self.owners.as_deref().map(ActingOwner::root_of).transpose()
    }

    /// Who somebody inside is in the tree. One the sandbox has no room for is nobody there.
    pub(super) fn shown(&self, inside: u32) -> u32 {
        self.owners.as_ref().map_or(inside, |owners| owners.on_host(inside))
    }
}
