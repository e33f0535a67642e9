//! The contract every implementation keeps.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use sandbar_core::{SessionId, ToolProgress, ToolRequest, ToolResponse, WriteOptions};

use crate::{
    ByteStream, EnvironmentCapabilities, EnvironmentConfig, EnvironmentState, FileContent, FileStream, ForkConfig,
    Result, Snapshot, SnapshotId,
};

/// Takes what a tool says while it works. It is called between steps of the tool, so it should be quick.
pub type OnProgress<'a> = &'a mut (dyn FnMut(ToolProgress) + Send);

/// Makes environments.
#[async_trait]
pub trait EnvironmentProvider: fmt::Debug + Send + Sync {
    /// What environments of this provider can do.
    async fn capabilities(&self) -> Result<EnvironmentCapabilities>;

    /// Makes an environment. What `config.required` names and is not there is `CapabilityNotSupported`, before anything
    /// was made; `SessionLimitReached` when there is no room.
    async fn create(&self, config: EnvironmentConfig) -> Result<Arc<dyn ExecutionEnvironment>>;

    /// Another handle to an environment that exists. `SessionNotFound` when it does not.
    async fn attach(&self, session: &SessionId) -> Result<Arc<dyn ExecutionEnvironment>>;
}

/// One sandbox.
///
/// What an implementation must keep, and the conformance suite checks:
/// - A capability that is there works. One that is not gives `CapabilityNotSupported` and does nothing.
/// - Everything may be called at the same time. Tools overlap with tools; a pause overlaps with tools, and comes before or
///   after each of them; pause and resume come one after the other.
/// - A tool call that is repeated under its id is done once.
/// - Tools, snapshots and writes need an environment that is active; otherwise they give `NotActive` with its state.
/// - After `destroy` everything but `state` and `destroy` gives `NotActive`; `destroy` succeeds again.
/// - Dropping the future of a tool call, a read or a write stops the work on the other side, too. What changes the
///   environment as a whole, such as a pause or a rollback, comes to its end once it has begun.
/// - Tools answer in the same shapes everywhere: see `docs/tools.md`.
#[async_trait]
pub trait ExecutionEnvironment: fmt::Debug + Send + Sync {
    fn session_id(&self) -> &SessionId;

    fn capabilities(&self) -> &EnvironmentCapabilities;

    async fn state(&self) -> Result<EnvironmentState>;

    /// Calls a tool and tells what it says meanwhile. A tool that fails gives an answer with `is_error`; an error means that
    /// there is no answer.
    async fn execute_tool(&self, request: ToolRequest, on_progress: OnProgress<'_>) -> Result<ToolResponse>;

    /// Stops the clock of everything that runs. Fine when it stands already.
    async fn pause(&self) -> Result<()>;

    /// Lets it go on. Fine when it runs already.
    async fn resume(&self) -> Result<()>;

    /// Ends the environment and what is in it. Succeeds again when it is gone.
    async fn destroy(&self) -> Result<()>;

    async fn create_snapshot(&self, name: &str) -> Result<Snapshot>;

    /// The end of an agent's turn: takes a snapshot with a name of the provider's.
    async fn turn_complete(&self) -> Result<Snapshot>;

    /// Oldest first.
    async fn list_snapshots(&self) -> Result<Vec<Snapshot>>;

    /// Puts files back as they were. What ran is ended; later snapshots are gone.
    async fn rollback(&self, snapshot: &SnapshotId) -> Result<()>;

    /// A copy that goes its own way.
    async fn fork(&self, config: ForkConfig) -> Result<Arc<dyn ExecutionEnvironment>>;

    /// Reads a file, following links inside the environment. Relative paths start at `/workspace`.
    async fn read_file(&self, path: &Path) -> Result<FileContent>;

    /// Writes a file and says how many bytes that were. It appears whole or not at all; a stream that gives an error
    /// changes nothing.
    async fn write_file(&self, path: &Path, options: WriteOptions, content: ByteStream) -> Result<u64>;

    /// Entries below a directory, `depth` levels of them.
    async fn list_files(&self, path: &Path, depth: u32) -> Result<FileStream>;
}
