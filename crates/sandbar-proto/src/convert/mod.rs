//! Conversions between messages and core values.

mod attach;
mod audit;
mod base;
mod event;
mod exec;
mod expiry;
mod file;
mod host;
mod json;
mod log;
mod network;
mod page;
mod process;
mod resources;
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
