//! Init: the resident first process of a box. Starts commands, reaps processes, reports to the
//! host.
//!
//! It is single-threaded and exits when the host closes its socket. If it is pid 1 of a pid
//! namespace, the kernel then kills everything in the box.

mod child_signals;
mod clone;
mod connect;
mod connections;
mod guest_groups;
mod launch;
mod pipes;
mod relay;
mod serve;
mod start;
mod terminal;
mod terminal_signals;

pub(crate) use serve::{InitSettings, InitSockets, serve};
