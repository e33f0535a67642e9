//! Code generated from `proto/sandbar/v1` by the build script.

#[allow(
    clippy::pedantic,
    missing_debug_implementations,
    unreachable_pub,
    reason = "generated code; which of these fire depends on the generator's version"
)]
mod tree {
    connectrpc::include_generated!();
}

pub use tree::sandbar::v1;

/// Compiled `.proto` files with their imports, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandbar.v1.bin"));
