//! Root rights of a session: whether root has capabilities over its own files and processes.

use sandbar_core::{Capability, Error, Result, RootRights, StorageKind};

use super::root::Root;
use crate::{engine::Engine, state::SessionRecord};

const NOT_TRANSLATED: &str = "the storage cannot be mounted with translated file owners, so root of a session would own files as root of the host";

impl Engine {
    /// Whether sessions can have root rights of their own.
    pub(crate) fn root_rights(&self) -> Capability {
        match (
            self.runtime.facts().root_rights.clone(),
            self.storage.kind(),
        ) {
            (Capability::Yes, StorageKind::Zfs) => Capability::no(NOT_TRANSLATED),
            (of_runtime, _) => of_runtime,
        }
    }

    /// Refuses root rights that this host does not support.
    pub(super) fn admit_rights(&self, rights: RootRights) -> Result<()> {
        match (rights, self.root_rights()) {
            (RootRights::Own, Capability::No(reason)) => Err(cannot(&reason)),
            _ => Ok(()),
        }
    }

    /// Mounts the tree of a new session with own root rights, which need an idmapped mount. `None`
    /// for bare root.
    pub(super) fn root_for(&self, record: &SessionRecord) -> Result<Option<Root>> {
        if record.root_rights == RootRights::Bare {
            return Ok(None);
        }
        let root = Root::mount(self, &record.id)?;
        if root.owners.is_some() {
            Ok(Some(root))
        } else {
            Err(cannot(NOT_TRANSLATED))
        }
    }
}

fn cannot(reason: &str) -> Error {
    Error::invalid(
        "root_rights",
        format!("root cannot have rights of its own: {reason}"),
    )
    .with_hint("omit `root_rights`, or use `bare`")
}
