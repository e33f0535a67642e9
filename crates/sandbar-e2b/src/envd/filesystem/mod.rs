//! `filesystem` over Connect: entries and directories, by paths of the user a call acts as.

mod changes;
mod entry;
mod names;
mod service;
mod watch;
mod watch_stream;
mod watchers;

pub(super) use entry::METADATA_PREFIX;
pub(super) use service::register;
