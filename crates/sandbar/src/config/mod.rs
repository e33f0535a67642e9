//! The configuration of a host: defaults, then the file, then `SANDBAR_*`, then flags; the last one
//! wins.
//!
//! Invariant: an unknown key is never ignored. It is refused, with the nearest known key as a hint.

mod keys;
mod layers;
mod reference;
mod server;
mod settings;

pub(crate) use reference::help as reference_help;
pub(crate) use server::{ServerConfig, TlsMode};
pub(crate) use settings::Settings;
