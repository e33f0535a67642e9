//! Sessions on one machine.
//!
//! [`Host`] owns the sessions of a machine: each is a copy-on-write volume with its snapshots, and
//! the commands that run on it. It has no network API; the server crate wraps it.
//!
//! Every operation of more than one step writes an *intent* before it acts, and clears it in the
//! transaction that records the result. After `kill -9`, [`Host::start`] finishes or undoes the
//! intents that are left.
//!
//! Invariant: what was acknowledged is in the state database, and what is in the state database is
//! in the storage. A dropped call does not break it: operations run to their end on threads of
//! their own.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests start programs and tasks as they need"
    )
)]

mod actor;
mod admission;
mod audit;
mod audit_budget;
mod blocking;
mod call_slots;
mod config;
mod data_directory;
mod default_limits;
mod engine;
mod events;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod health;
mod host;
mod incidents;
mod janitor;
mod metrics;
mod network;
mod object_store;
mod perform;
mod process;
mod readable;
mod recovery;
mod runtime_choice;
mod saved_bases;
mod secrets;
mod session;
mod session_locks;
mod state;
mod tokens;
mod traffic_token;
mod verb;
mod worker;

pub use actor::acting_as;
pub use config::{DnsServer, HostConfig, RuntimeChoice, StorageChoice, refuse_lent};
pub use data_directory::prepare_data_directory;
pub use default_limits::DefaultLimits;
pub use events::EventWatcher;
pub use host::{Host, HostParts, OpenStorage, WrapRuntime};
pub use process::ProcessLogs;
pub use runtime_choice::{RuntimeAbilities, RuntimeReport, runtime_choices};
pub use sandbar_oci::{Credentials, ImageReference, PullProgress, PulledImage};
pub use sandbar_runtime::{RunningCommand, StdinHandle};
pub use sandbar_storage::{ImportProgress, ImportSource};
pub use sandbar_tree::session_tree::DraftKind;
pub use session::{
    AttachedStdin, Attachment, DirWatcher, FileWriter, LaunchedProcess, PortAccess, PortConnection,
    ToolExecution, TreeReader, TreeWriter, WatchPace,
};
pub use session_locks::SessionLocks;
pub use tokens::KnownToken;
pub use traffic_token::TrafficToken;
pub use worker::run_worker_role;
