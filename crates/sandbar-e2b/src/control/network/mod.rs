//! Network settings of a sandbox, and the session policy they are translated to.

mod config;
mod plan;
mod ranges;
mod update;

pub(super) use plan::{NetworkPlan, secrets_of};
pub(super) use update::update;
