//! Sessions: [`Session`], the in-memory state of one, and a file for each verb on it.
//!
//! # Lock order
//!
//! A thread that holds one of these takes only those further down:
//!
//! 1. `Session::admission`, shared or exclusive. A verb takes it first and only once; no verb
//!    enters two sessions.
//! 2. `SavedBase::gone`, while a session is copied from a saved base or the base is deleted.
//! 3. `Session::storage_order`, around every storage call that changes the volume. A fork holds
//!    that of its source.
//! 4. `Session::freezing_order`, while a verb keeps the box frozen for a copy of the volume.
//! 5. `Session::box_order`, while a box starts or stops, while its egress listeners open or close,
//!    and while its policy changes. Callers that wait for it give up after a deadline; calls that
//!    need only files, or a box that runs, do not take it.
//! 6. `Session::mount_order`, while the tree is mounted; or `Engine::host_base` or
//!    `Engine::base_order`, never with one of these two.
//! 7. Locks of one structure, which are held briefly: `Session::live`; the session table, then the
//!    saved-base names or the tool calls of a session; `changing` of tokens or secrets, then the
//!    state database, then their `kept`; the decision log's `writing`, then the audit budget, then
//!    the state database; the event log.
//!
//! `Session::stop` releases `box_order` before it joins the supervisors, since a supervisor that
//! restarts its process takes it. `SavedBases::dropping` is taken last, with only the state
//! database and the storage below it; the janitor only tries it.
//!
//! No lock is held across an `.await`. Blocking code that waits on a future uses `block_on`, on a
//! thread of the waiting pool (`blocking.rs`).
//!
//! # Owners of tasks
//!
//! | task | owner | ended by |
//! |---|---|---|
//! | verb | its pool; not cancelled with its future | itself; shutdown waits for its entry |
//! | tool call | `Session::calls` | its last caller, destroy, or shutdown |
//! | supervisor of a process | `Session::processes` | `Session::stop`, which joins it |
//! | proxy of an exposed port | its supervisor | the supervisor, which joins it |
//! | tree export or import | `TreeReader`, `TreeWriter`, with an entry | drop, `Session::streams` |
//! | egress of a box | `Live::outlet` | `Live::close_outlet`, which joins it |
//! | writer of egress decisions | `Engine::decisions` | `DecisionLog::close`, which joins it |
//! | janitor, and its work on sessions | `Host` | `Host::shutdown`, which joins it |

mod activity;
mod attach;
mod bases;
mod box_order;
mod create;
mod destroy;
mod diff;
mod exec;
mod expiry;
mod files;
mod fork;
mod furnish;
mod hibernate;
mod list;
mod live;
mod lookup;
mod network;
mod notes;
mod pause;
mod ports;
mod processes;
mod rights;
mod rollback;
mod root;
mod save_base;
mod snapshot;
mod tools;
mod trees;
mod users;
mod watch;
mod watch_pace;

pub(crate) use activity::Activity;
pub use attach::{AttachedStdin, Attachment};
pub use files::FileWriter;
#[cfg(any(fuzzing, test))]
pub use list::page_token;
pub(crate) use live::Session;
pub use ports::{PortAccess, PortConnection};
pub use processes::LaunchedProcess;
pub use tools::ToolExecution;
pub use trees::{TreeReader, TreeWriter};
pub use watch::DirWatcher;
pub use watch_pace::WatchPace;
