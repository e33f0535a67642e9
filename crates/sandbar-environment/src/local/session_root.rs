//! Root directory of a session, and the sandbox opened on it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use sandbar_core::{ErrorCode, Resources, Result, RootRights, SessionId};
use sandbar_runtime::{BoxNetwork, Runtime, Sandbox, SandboxSpec};
use sandbar_tree::{
    SessionTree,
    session_tree::{WORKING_DIRECTORY, absolute},
};

use super::private_root::PrivateRoot;

/// Root directory of a session.
#[derive(Debug)]
pub(super) enum SessionRoot {
    /// A private root with the caller's directory as `/workspace`.
    Private(PrivateRoot),
    /// The machine's own root; relative paths start at the caller's directory.
    Machine { directory: PathBuf },
}

impl SessionRoot {
    /// Builds a private root. Without the privilege to mount, and if no isolation is required,
    /// falls back to the machine's root. Blocks.
    pub(super) fn open(directory: &Path, isolated: bool) -> Result<Self> {
        match PrivateRoot::build(directory) {
            Ok(root) => Ok(Self::Private(root)),
            Err(error) if !isolated && error.code() == ErrorCode::PermissionDenied => {
                Ok(Self::Machine {
                    directory: directory.to_owned(),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the files for tools in this process. Blocks.
    pub(super) fn tree(&self) -> Result<SessionTree> {
        match self {
            Self::Private(root) => root.with(|root| SessionTree::open(root, None)),
            Self::Machine { directory } => {
                Ok(SessionTree::open(Path::new("/"), None)?.with_workspace(directory))
            }
        }
    }

    /// Opens a sandbox on the root. Blocks.
    pub(super) fn open_sandbox(
        &self,
        runtime: &Arc<dyn Runtime>,
        session: &SessionId,
        resources: &Resources,
    ) -> Result<Arc<dyn Sandbox>> {
        let (runtime, session, resources) =
            (Arc::clone(runtime), session.clone(), resources.clone());
        let default_memory = match self {
            Self::Private(_) => sandbar_runtime::default_memory(),
            Self::Machine { .. } => None,
        };
        let open = move |root: &Path| {
            runtime.open_sandbox(&SandboxSpec {
                skip_pids: 0,
                rights: RootRights::default(),
                session: &session,
                root,
                owners: None,
                resources: &resources,
                default_memory,
                network: BoxNetwork::Closed,
                trust: None,
            })
        };
        match self {
            Self::Private(root) => root.with(open),
            Self::Machine { .. } => open(Path::new("/")),
        }
    }

    /// Translates the working directory of a command to a path that the sandbox sees.
    pub(super) fn working_directory(&self, asked: Option<String>) -> Result<Option<String>> {
        let Self::Machine { directory } = self else {
            return Ok(asked);
        };
        let path = absolute(Path::new(asked.as_deref().unwrap_or(".")))?;
        let real = path
            .strip_prefix(WORKING_DIRECTORY)
            .map_or_else(|_| path.clone(), |below| directory.join(below));
        // The provider has refused a directory whose path is not UTF-8.
        Ok(real.to_str().map(str::to_owned))
    }

    /// Unmounts the private root. Nothing can be opened afterwards. Blocks.
    pub(super) fn close(&self) {
        if let Self::Private(root) = self {
            root.close();
        }
    }

    /// Returns whether commands and tools see the same paths.
    pub(super) fn is_private(&self) -> bool {
        matches!(self, Self::Private(_))
    }
}
