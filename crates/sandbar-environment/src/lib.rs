//! One sandbox as an agent loop uses it.
//!
//! An [`EnvironmentProvider`] creates environments; an [`ExecutionEnvironment`] is one of them:
//! tools, snapshots, files, pause and resume. [`local`] runs tools in this process on a directory
//! of the caller; [`native`] is a session on a Sandbar host. [`EnvironmentCapabilities`] say what
//! an environment supports; anything else is refused.
//!
//! Invariant: nothing in the traits names a vendor, a wire format or a host. The suite in
//! `tests/conformance` is the contract, and every implementation runs it.

mod capabilities;
mod config;
mod environment;
mod error;
mod files;
pub mod local;
pub mod native;
mod snapshot;
mod state;

pub use capabilities::{EnvironmentCapabilities, Feature};
pub use config::{EnvironmentConfig, EnvironmentOptions, ForkConfig};
pub use environment::{EnvironmentProvider, ExecutionEnvironment, OnProgress};
pub use error::{EnvironmentError, Result};
pub use files::{ByteStream, FileContent, FileStream};
pub use sandbar_core::{
    ContentBlock, FileStat, Labels, SessionId, ToolCallId, ToolInfo, ToolParams, ToolProgress,
    ToolRequest, ToolResponse, ToolTier, WriteOptions,
};
pub use sandbar_tools::list_tools;
pub use snapshot::{Snapshot, SnapshotId};
pub use state::EnvironmentState;
