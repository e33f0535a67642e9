//! RPC handlers: one file for each group of calls, one function for each call.

mod attach;
mod audit;
mod bases;
mod batches;
mod bidi_call;
pub(crate) mod errors;
mod events;
mod exec;
mod files;
pub(crate) mod grpc_health;
mod host;
mod network;
mod processes;
mod service;
mod sessions;
mod slow_reader;
mod snapshots;
mod stdin_queue;
mod tokens;
mod tools;

pub(crate) use service::Service;
