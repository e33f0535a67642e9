//! The traits that every implementation provides.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use sandbar_core::{SessionId, ToolProgress, ToolRequest, ToolResponse, WriteOptions};

use crate::{
    ByteStream, EnvironmentCapabilities, EnvironmentConfig, EnvironmentState, FileContent,
    FileStream, ForkConfig, Result, Snapshot, SnapshotId,
};

/// Callback for the progress of a tool. It runs between steps of the tool and should return
/// quickly.
pub type OnProgress<'a> = &'a mut (dyn FnMut(ToolProgress) + Send);

/// Provider of environments.
#[async_trait]
pub trait EnvironmentProvider: fmt::Debug + Send + Sync {
    /// Returns the capabilities of environments of this provider.
    async fn capabilities(&self) -> Result<EnvironmentCapabilities>;

    /// Creates an environment. Returns `CapabilityNotSupported` if a feature of `config.required`
    /// is missing, before anything is created, and `SessionLimitReached` if the provider is full.
    async fn create(&self, config: EnvironmentConfig) -> Result<Arc<dyn ExecutionEnvironment>>;

    /// Returns another handle to an existing environment, or `SessionNotFound`.
    async fn attach(&self, session: &SessionId) -> Result<Arc<dyn ExecutionEnvironment>>;
}

/// One sandbox.
///
/// Contract of an implementation, checked by the conformance suite:
/// - A supported capability works. A missing one returns `CapabilityNotSupported` and does nothing.
/// - All methods may be called concurrently. Tools run in parallel; a pause is ordered before or
///   after each tool call; pause and resume are serialised.
/// - A tool call that is repeated under its id runs once.
/// - Tools, snapshots and writes need an active environment; otherwise they return `NotActive` with
///   its state.
/// - After `destroy` everything but `state` and `destroy` returns `NotActive`; `destroy` succeeds
///   again.
/// - Dropping the future of a tool call, a read or a write cancels the work. Changes of the whole
///   environment, such as a pause or a rollback, complete once they have begun.
/// - Results of tools have the same form everywhere: see `docs/tools.md`.
#[async_trait]
pub trait ExecutionEnvironment: fmt::Debug + Send + Sync {
    fn session_id(&self) -> &SessionId;

    fn capabilities(&self) -> &EnvironmentCapabilities;

    async fn state(&self) -> Result<EnvironmentState>;

    /// Calls a tool and reports its progress. A tool that fails returns a result with `is_error`;
    /// an `Err` means that there is no result.
    async fn execute_tool(
        &self,
        request: ToolRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<ToolResponse>;

    /// Freezes all processes. Succeeds if the environment is paused already.
    async fn pause(&self) -> Result<()>;

    /// Lets the processes continue. Succeeds if the environment is active already.
    async fn resume(&self) -> Result<()>;

    /// Destroys the environment with its processes and files. Succeeds if it is gone already.
    async fn destroy(&self) -> Result<()>;

    async fn create_snapshot(&self, name: &str) -> Result<Snapshot>;

    /// Ends an agent's turn: takes a snapshot with a generated name.
    async fn turn_complete(&self) -> Result<Snapshot>;

    /// Returns all snapshots, oldest first.
    async fn list_snapshots(&self) -> Result<Vec<Snapshot>>;

    /// Restores the files of a snapshot. Processes are ended; later snapshots are deleted.
    async fn rollback(&self, snapshot: &SnapshotId) -> Result<()>;

    /// Creates an independent copy.
    async fn fork(&self, config: ForkConfig) -> Result<Arc<dyn ExecutionEnvironment>>;

    /// Reads a file, following links inside the environment. Relative paths start at `/workspace`.
    async fn read_file(&self, path: &Path) -> Result<FileContent>;

    /// Writes a file atomically and returns its size. An error of the stream changes nothing.
    async fn write_file(
        &self,
        path: &Path,
        options: WriteOptions,
        content: ByteStream,
    ) -> Result<u64>;

    /// Lists the entries below a directory, `depth` levels deep.
    async fn list_files(&self, path: &Path, depth: u32) -> Result<FileStream>;
}
