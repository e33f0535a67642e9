//! Sandboxes as every part of the API sees them: the note E2B keeps with a session, waking, expiry,
//! snapshots and the start command of a template.
//!
//! Nothing here knows about HTTP.

mod ceilings;
mod env;
mod expiry;
mod lines;
mod network_config;
mod note;
mod shell;
mod snapshots;
mod start_command;
mod state;
mod template;
mod wake;

pub use ceilings::SandboxCeilings;
pub(crate) use env::variables;
pub(crate) use expiry::{Extended, end_after};
pub(crate) use lines::MAX_LINE_BYTES;
pub(crate) use network_config::{NetworkConfig, Rules};
pub(crate) use note::{DEFAULT_USER, PausedState, SandboxNote};
pub(crate) use shell::{Context, Finished, LineSink, OutputStream, USUAL_PATH, run, shell_of};
pub(crate) use snapshots::{Snapshot, SnapshotNote, SnapshotRef};
pub(crate) use start_command::{MAX_RETRY_DELAY, MIN_RETRY_DELAY, StartCommand};
pub(crate) use state::Sandboxes;
pub(crate) use template::Template;
pub(crate) use wake::{Waking, is_asleep, is_present};
