//! The client side: connecting to a host, running and attaching to remote processes, copying trees.

pub(crate) mod connection;
pub(crate) mod e2b_environment;
pub(crate) mod registry_login;
pub(crate) mod remote_attach;
pub(crate) mod remote_exec;
pub(crate) mod tree;
