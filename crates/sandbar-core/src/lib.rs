//! The vocabulary of Sandbar.
//!
//! Every other crate speaks in these types: validated [ids](SessionId), the [`SessionSpec`] a
//! session is made from, the [`SessionState`] it is in, the [`Capabilities`] a host has, the
//! [`Change`]s between two trees, and the one [`Error`] everything reports.
//!
//! Invariant: nothing here does I/O, and a value that exists is valid. Parsing is the only way in.

mod audit;
mod base;
mod byte_count;
mod capability;
mod change;
pub mod duration_text;
mod error;
mod error_code;
mod event;
mod exec;
mod file;
mod fork;
mod health;
mod id;
mod lock_ext;
mod network;
mod owner_map;
mod page;
mod process;
mod resources;
mod root_rights;
mod session;
mod shown;
pub mod signal;
mod snapshot;
mod token;
mod tool;
mod user;

pub use audit::{Actor, AuditEntry, AuditOrder, AuditQuery, AuditVerdict};
pub use base::{BaseInfo, HOST_BASE, SaveBase};
pub use byte_count::ByteCount;
pub use capability::{Capabilities, Capability, RuntimeKind, StorageKind};
pub use change::{Aspect, Aspects, Change, ChangeKind, EntryType};
pub use error::{Error, Result};
pub use error_code::ErrorCode;
pub use event::{EventKind, EventNews, EventQuery, SessionEvent};
pub use exec::{CommandEnd, ExecEvent, ExecSpec, ExitStatus, StdinMode, TerminalSize};
pub use file::{
    DirChange, DirChangeKind, DirNews, FileDetails, FileStat, LinkEnd, MakeDirOptions, TreeSummary,
    WriteOptions,
};
pub use fork::ForkRequest;
pub use health::{Health, HealthStatus};
pub use id::{BaseName, ProcessId, SessionId, SnapshotName};
pub use lock_ext::{MutexExt, RwLockExt};
pub use network::{
    AddressRange, Destination, DomainName, DomainPattern, HeaderRule, NetworkDecision,
    NetworkLimits, NetworkPolicy, NetworkProtocol, NetworkStatus, NetworkTraffic, NetworkVerdict,
    PortRange, SecretInfo, SecretName, SecretValue, Target, Transport,
};
pub use owner_map::OwnerMap;
pub use page::{Page, PageRequest, SessionFilter};
pub use process::{
    AttachEvent, LogChunk, LogQuery, LogStream, ProcessExit, ProcessInfo, ProcessSpec,
    ProcessStatus, Readiness, Replay, RestartPolicy, WaitFor,
};
pub use resources::Resources;
pub use root_rights::RootRights;
pub use session::{Keep, Labels, OnExpiry, SessionInfo, SessionSpec, SessionState, SessionUsage};
pub use shown::{is_unprintable, shown, shown_path};
pub use snapshot::{LaterSnapshots, Quiesce, SnapshotInfo, SnapshotKind};
pub use token::{AccessToken, Grant, Need, NewToken, TokenInfo, TokenName, TokenScope};
pub use tool::{
    ContentBlock, ToolCallId, ToolEvent, ToolInfo, ToolParams, ToolProgress, ToolRequest,
    ToolResponse, ToolTier,
};
pub use user::UserAccount;
