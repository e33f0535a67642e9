//! What is special about ZFS, on a real pool: generations, forks of what was dropped, interrupted calls, pool states,
//! streams and mount namespaces. What every backend promises is in the conformance suite.
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
