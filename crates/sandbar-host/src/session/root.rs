//! [`Root`]: the mounted tree of a session and its owner map.

use std::{path::PathBuf, sync::Arc};

use sandbar_core::{OwnerMap, Result, SessionId};
use sandbar_tree::ActingOwner;

use crate::engine::Engine;

/// A session's tree in the mount namespace of the host.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// Owner map that the tree was mounted with. `None`: uids are those on disk.
    pub(super) owners: Option<Arc<OwnerMap>>,
}

impl Root {
    /// Mounts the tree for the runtime of this host.
    pub(super) fn mount(engine: &Engine, session: &SessionId) -> Result<Self> {
        let owners = engine.runtime.owners()?;
        let mounted = engine.storage.mount_as(session, owners.as_deref())?;
        Ok(Self {
            path: mounted.root,
            owners: owners.filter(|_| mounted.translated),
        })
    }

    /// Sets the fsuid and fsgid of the calling thread to root of the sandbox, until the returned
    /// guard is dropped.
    pub(super) fn act(&self) -> Result<Option<ActingOwner>> {
        self.owners.as_deref().map(ActingOwner::root_of).transpose()
    }

    /// Returns the uid or gid in the tree for one inside the sandbox. Ids outside the mapped range
    /// become the sandbox's overflow id.
    pub(super) fn shown(&self, inside: u32) -> u32 {
        self.owners
            .as_ref()
            .map_or(inside, |owners| owners.on_host(inside))
    }
}
