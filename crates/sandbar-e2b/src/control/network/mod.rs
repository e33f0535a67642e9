//! The network of a sandbox: what E2B says about it, and what a session has for that.

mod config;
mod plan;
mod ranges;
mod update;

pub(crate) use config::NetworkConfig;
pub(super) use plan::{NetworkPlan, secrets_of};
pub(super) use update::update;
