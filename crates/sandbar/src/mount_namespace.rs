//! A mount namespace of our own.

pub(crate) use sandbar_storage::enter_private_mounts as enter_private;
