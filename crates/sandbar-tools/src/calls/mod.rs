//! The tool calls of one session: each call id is executed once, however many requests repeat it,
//! and cancelled when its last caller is gone.
//!
//! [`ToolCalls`] is the table of running calls. The first request with a call id gets an [`Entry`],
//! executes the call, stores its answer and ends the entry; later requests join the running call.

mod execution;
mod table;

pub use execution::ToolExecution;
pub use table::{Call, Entry, Found, ToolCalls, progress_channel};
