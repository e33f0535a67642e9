//! Where a session's files are, and how a sandbox is put over them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use sandbar_core::{ErrorCode, Resources, Result, RootRights, SessionId};
use sandbar_runtime::{BoxNetwork, Runtime, Sandbox, SandboxSpec};
use sandbar_storage::{
    SessionTree,
    session_tree::{WORKING_DIRECTORY, absolute},
};

use super::own_root::OwnRoot;

/// Where a session's files are.
#[derive(Debug)]
pub(super) enum Workplace {
    /// A root of its own, with the directory as its `/workspace`.
    Own(OwnRoot),
    /// The machine's own files; the directory is where relative paths start.
    Machine { directory: PathBuf },
}

impl Workplace {
    /// A root of its own where the caller may mount. Without walls, the machine's own files will do. Blocks.
    pub(super) fn open(directory: &Path, walls: bool) -> Result<Self> {
        match OwnRoot::build(directory) {
            Ok(root) => Ok(Self::Own(root)),
            Err(error) if !walls && error.code() == ErrorCode::PermissionDenied => {
                Ok(Self::Machine { directory: directory.to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    /// The files, for tools in this process. Blocks.
    pub(super) fn tree(&self) -> Result<SessionTree> {
        match self {
            Self::Own(root) => root.with(|root| SessionTree::open(root, None)),
            Self::Machine { directory } => Ok(SessionTree::open(Path::new("/"), None)?.with_workspace(directory)),
        }
    }

    /// Puts a sandbox over the files. Blocks.
    pub(super) fn open_sandbox(
        &self,
        runtime: &Arc<dyn Runtime>,
        session: &SessionId,
        resources: &Resources,
    ) -> Result<Arc<dyn Sandbox>> {
        let (runtime, session, resources) = (Arc::clone(runtime), session.clone(), resources.clone());
        let open = move |root: &Path| {
            runtime.open_sandbox(&SandboxSpec {
                skip_pids: 0,
                rights: RootRights::default(),
                session: &session,
                root,
                owners: None,
                resources: &resources,
                network: BoxNetwork::Closed,
                trust: None,
            })
        };
        match self {
            Self::Own(root) => root.with(open),
            Self::Machine { .. } => open(Path::new("/")),
        }
    }

    /// Where a command is to start: a path that means the same to the sandbox as to the caller.
    pub(super) fn working_directory(&self, asked: Option<String>) -> Result<Option<String>> {
        let Self::Machine { directory } = self else { return Ok(asked) };
        let path = absolute(Path::new(asked.as_deref().unwrap_or(".")))?;
        let real = path.strip_prefix(WORKING_DIRECTORY).map_or_else(|_| path.clone(), |below| directory.join(below));
        // A directory whose name is not text was refused when the provider was opened.
        Ok(real.to_str().map(str::to_owned))
    }

    /// Lets go of the directory. Nothing can be opened here afterwards. Blocks.
    pub(super) fn close(&self) {
        if let Self::Own(root) = self {
            root.close();
        }
    }

    /// Whether commands see the session's files at the paths tools do.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }
}
