//! Builds of templates: started, logged, cancelled, and cleaned up after a crash.

mod archive;
mod builds;
mod cleanup;
mod copy;
mod failure;
mod images;
mod layers;
mod log;
mod merge;
mod origin;
mod plan;
mod recovery;
mod run;
mod steps;
mod try_start;
mod users;
mod variables;

pub(crate) use builds::BUILD_PREFIX;
pub(super) use builds::Builds;
pub(super) use log::{BuildLog, Level, LogEntry};
pub(super) use plan::BuildPlan;
