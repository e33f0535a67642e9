//! Cgroups: what is in one can be frozen, limited and ended as a whole, whatever it did with sessions and parents.
//!
//! Every session has a group in the v2 hierarchy, with one below it for init and one for each command. Limits are kept
//! where the machine has the controllers: in the same groups, or in v1 hierarchies beside them. What can be used is found
//! out by trying.

mod controllers;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod group;
mod host_groups;
mod session_groups;

pub(crate) use host_groups::{HostGroups, SessionLease};
pub(crate) use session_groups::{CommandGroup, SessionGroups};
