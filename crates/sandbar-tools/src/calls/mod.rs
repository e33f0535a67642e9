//! The calls of one session: done once, however often they are asked for, and ended when nobody waits for them.
//!
//! [`ToolCalls`] is the table of what is under way. Whoever finds that a call is new gets an [`Entry`], does the call, writes
//! its answer down and ends the entry; everybody else joins.

mod execution;
mod table;

pub use execution::ToolExecution;
pub use table::{Call, Entry, Found, ToolCalls, progress_channel};
