//! Messages and core values, in both directions.

mod audit;
mod base;
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

pub use file::{pack_path, unpack_path};
