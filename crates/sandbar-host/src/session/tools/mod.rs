//! Tool calls: executed once per call id, and cancelled when the last caller drops them.

mod execute;
mod runner;
mod trace;
mod work;

pub use sandbar_tools::calls::ToolExecution;
