//! The resident init: starts commands inside a box, reaps, and tells the host.
//!
//! It is single-threaded, holds nothing the host would miss, and dies with the host's socket; where it is pid 1 of a pid
//! namespace, everything in the box dies with it.

mod clone;
mod connect;
mod connections;
mod groups;
mod relay;
mod serve;
mod start;
mod terminal;
mod terminal_signals;

pub(crate) use serve::{InitSettings, InitSockets, serve};
