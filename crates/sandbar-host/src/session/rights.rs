//! What the root of a session may do, and whether this host can give it.

use sandbar_core::{Capability, Error, Result, RootRights, StorageKind};

use super::root::Root;
use crate::{host::Inner, state::SessionRecord};

const NOT_TRANSLATED: &str =
    "the owners of files cannot be translated here, and so root of a session would be root of its files";

impl Inner {
    /// Whether sessions can have a root with rights of its own.
    pub(crate) fn root_rights(&self) -> Capability {
        match (self.runtime.facts().root_rights.clone(), self.storage.kind()) {
            (Capability::Yes, StorageKind::Zfs) => Capability::no(NOT_TRANSLATED),
            (of_runtime, _) => of_runtime,
        }
    }

    /// Refuses rights this host cannot give.
    pub(super) fn admit_rights(&self, rights: RootRights) -> Result<()> {
        match (rights, self.root_rights()) {
            (RootRights::Own, Capability::No(reason)) => Err(cannot(&reason)),
            _ => Ok(()),
        }
    }

    /// The tree of a new session, mounted where its rights depend on how it can be mounted.
    pub(super) fn root_for(&self, record: &SessionRecord) -> Result<Option<Root>> {
        if record.root_rights == RootRights::Bare {
            return Ok(None);
        }
        let root = Root::mount(self, &record.id)?;
        if root.owners.is_some() { Ok(Some(root)) } else { Err(cannot(NOT_TRANSLATED)) }
    }
}

fn cannot(reason: &str) -> Error {
    Error::invalid("root_rights", format!("root cannot have rights of its own: {reason}"))
        .with_hint("leave it out, or use `bare`")
}
