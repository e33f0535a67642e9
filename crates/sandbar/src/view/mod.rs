//! How things look: the shapes `--json` prints, and the words tables use.
//!
//! The JSON field names are a contract with scripts: they are those of the wire API, in snake case.

mod json;
mod tool;
mod words;

pub(crate) use json::{BaseView, ChangeView, SessionView, SnapshotView};
pub(crate) use tool::ToolView;
pub(crate) use words::{age, moment, printable_labels};
