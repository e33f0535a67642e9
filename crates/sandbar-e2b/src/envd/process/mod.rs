//! `process` over Connect: commands, selected by process id or tag.

mod end_event;
mod events;
mod input;
mod selector;
mod service;
mod start;

pub(super) use service::register;
