//! Cgroups: freeze, limit and kill all processes of a session or a command at once, even if they
//! changed their process session or parent.
//!
//! Every session has a group in the v2 hierarchy, with one leaf group for init and one per command
//! below it. Controllers that are not available in v2 are used from their v1 hierarchies. Which of
//! them work is probed, not assumed.

mod command_group;
mod controllers;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod group;
mod host_groups;
mod limits;
mod session_groups;
mod stats;
mod v1_group;

pub(crate) use command_group::CommandGroup;
pub(crate) use host_groups::{HostGroups, SessionLease};
pub(crate) use session_groups::{MemoryScope, SessionGroups};
