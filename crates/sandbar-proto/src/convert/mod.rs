//! Messages and core values, in both directions.

mod attach;
mod audit;
mod base;
mod event;
mod exec;
mod file;
mod host;
mod json;
mod log;
mod network;
mod page;
mod process;
mod scalar;
mod session;
mod snapshot;
mod token;
mod tool;
mod watch;

pub use attach::unpack_attach_event;
pub use event::unpack_event_news;
pub use file::{pack_path, unpack_path};
pub use watch::unpack_dir_news;
