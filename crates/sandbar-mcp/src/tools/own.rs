//! Our own tools, which manage sandboxes.

use sandbar_core::Result;

use super::{answer::Answer, call::Call, definition::Definition, history, process, sandbox};

/// Tool of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnTool {
    SandboxCreate,
    SandboxList,
    SandboxDestroy,
    Snapshot,
    Rollback,
    Fork,
    Diff,
    Launch,
    Logs,
    ExposePort,
}

impl OwnTool {
    pub(crate) const ALL: [Self; 10] = [
        Self::SandboxCreate,
        Self::SandboxList,
        Self::SandboxDestroy,
        Self::Snapshot,
        Self::Rollback,
        Self::Fork,
        Self::Diff,
        Self::Launch,
        Self::Logs,
        Self::ExposePort,
    ];

    pub(crate) fn define(self) -> Definition {
        match self {
            Self::SandboxCreate => sandbox::define_create(),
            Self::SandboxList => sandbox::define_list(),
            Self::SandboxDestroy => sandbox::define_destroy(),
            Self::Snapshot => history::define_snapshot(),
            Self::Rollback => history::define_rollback(),
            Self::Fork => history::define_fork(),
            Self::Diff => history::define_diff(),
            Self::Launch => process::define_launch(),
            Self::Logs => process::define_logs(),
            Self::ExposePort => process::define_expose_port(),
        }
    }

    /// Reports whether the tool creates sandboxes, which a token of one sandbox may not.
    pub(crate) fn creates_sandboxes(self) -> bool {
        matches!(self, Self::SandboxCreate | Self::Fork)
    }

    pub(crate) async fn run(self, call: Call<'_>) -> Result<Answer> {
        match self {
            Self::SandboxCreate => sandbox::create(call).await,
            Self::SandboxList => sandbox::list(call).await,
            Self::SandboxDestroy => sandbox::destroy(call).await,
            Self::Snapshot => history::snapshot(call).await,
            Self::Rollback => history::rollback(call).await,
            Self::Fork => history::fork(call).await,
            Self::Diff => history::diff(call).await,
            Self::Launch => process::launch(call).await,
            Self::Logs => process::logs(call).await,
            Self::ExposePort => process::expose_port(call).await,
        }
    }
}
