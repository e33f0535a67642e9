//! The REST API of sandboxes, one file per resource or call.
//!
//! Errors have the shape of E2B's. A field that cannot be honoured is refused by name; an unknown
//! field is ignored.

mod connect;
mod create;
mod details;
mod errors;
mod expiry;
mod fork;
mod get;
mod idempotency;
mod kill;
mod list;
mod list_query;
mod logs;
mod machine;
mod metrics;
mod network;
mod not_offered;
mod pause;
mod rollback;
mod routes;
mod sampler;
mod snapshots;
mod state;

pub(crate) use routes::{router, routes};
pub(crate) use sampler::Sampler;
pub(crate) use state::Control;
