//! Presentation: JSON documents of `--json`, and texts of tables.
//!
//! The JSON field names are a contract with scripts: they are those of the wire API, in snake case.

mod audit;
mod event;
mod json;
mod network;
mod process;
mod token;
mod tool;
mod words;

pub(crate) use audit::{AuditView, audit_detail};
pub(crate) use event::{DirChangeView, EventView, dir_change_line, event_line};
pub(crate) use json::{BaseView, ChangeView, SessionView, SnapshotView};
pub(crate) use network::{NetworkView, SecretView, enforcement, injection};
pub(crate) use process::{ProcessView, process_status, shortened};
pub(crate) use token::{NewTokenView, TokenView};
pub(crate) use tool::{ToolInfoView, ToolView};
pub(crate) use words::{age, brief, end, length, moment, origin, printable_labels, short_age};
