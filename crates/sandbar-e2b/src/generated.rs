//! What the build script makes from `proto/`.

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

#[allow(unused_imports, reason = "used by the services, which are added one by one")]
pub(crate) use tree::{filesystem, process};
