//! The configuration of a host: defaults, then the file, then `SANDBAR_*`, then flags; the last one wins.
//!
//! Invariant: a key nobody knows is never ignored. It is refused, with the nearest key that exists.

mod keys;
mod layers;
mod settings;

pub(crate) use settings::{ServerConfig, Settings, TlsMode};
