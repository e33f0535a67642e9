//! A session on a Sandbar host, over its API. What it can do is what the host says it can.

mod environment;
mod provider;

pub use environment::NativeEnvironment;
pub use provider::NativeProvider;
