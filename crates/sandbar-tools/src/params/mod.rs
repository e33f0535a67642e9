//! Parameters of tools: one definition gives the Rust type, its parser and its JSON Schema.

mod define;
mod kinds;
mod read;

pub(crate) use define::{choice, tool};
pub(crate) use kinds::{FilePath, GitRef, GlobPattern, ParamKind};
pub(crate) use read::{Tool, bare, count, prose, refuse_unknown, take};
