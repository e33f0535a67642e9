//! The verbs, one file each.

pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod base;
pub(crate) mod clock;
pub(crate) mod cp;
pub(crate) mod diff;
mod dispatch;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod fork;
pub(crate) mod inspect;
pub(crate) mod kill;
pub(crate) mod launch;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod network;
pub(crate) mod new;
pub(crate) mod ps;
pub(crate) mod rm;
pub(crate) mod rollback;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod snapshots;
pub(crate) mod token;
pub(crate) mod tool;
pub(crate) mod turn;
pub(crate) mod up;
pub(crate) mod watch;

pub(crate) use dispatch::dispatch;
