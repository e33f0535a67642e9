//! A session on a Sandbar host, over its API, with the capabilities of the host.

mod environment;
mod provider;

pub use environment::NativeEnvironment;
pub use provider::NativeProvider;
