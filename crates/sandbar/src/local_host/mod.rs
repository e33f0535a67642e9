//! The host side: what `sandbar up` needs around the host itself, and the files in the data
//! directory by which clients on the same machine find it.

pub(crate) mod authority;
pub(crate) mod descriptor_limit;
pub(crate) mod discovery;
pub(crate) mod logging;
pub(crate) mod name_server;
pub(crate) mod oom_score;
pub(crate) mod serve;
pub(crate) mod service_manager;
pub(crate) mod trace_export;
