//! Code generated from `proto/` by the build script.

#[allow(
    clippy::pedantic,
    clippy::upper_case_acronyms,
    missing_debug_implementations,
    unreachable_pub,
    dead_code,
    unused_imports,
    reason = "generated code; which of these fire depends on the generator's version"
)]
mod tree {
    connectrpc::include_generated!();
}

pub(crate) use tree::{filesystem, process};
