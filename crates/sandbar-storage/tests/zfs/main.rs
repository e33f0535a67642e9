//! Tests specific to ZFS, on a real pool: generations, forks of dropped snapshots, interrupted
//! calls, pool states, streams and mount namespaces. The contract of all backends is in the
//! conformance suite.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod bases;
mod forks;
mod generations;
mod interrupted;
mod killed;
mod namespaces;
mod pool;
mod signals;
mod streams;
mod support;
