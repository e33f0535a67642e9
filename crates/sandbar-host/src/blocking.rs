//! The two thread pools that verbs run on.
//!
//! [`blocking`] uses the pool of the tokio runtime, which has 512 threads. Work on it may read and
//! write disks and take locks, but must not wait for another verb, a box or a peer.
//!
//! [`waiting`] uses a pool of its own for the work that does: exclusive entry to a session waits
//! for shared entries to leave, a command waits for its box, a tree waits for its reader. Such work
//! often waits for something that needs a thread of the first pool, as a tool call does to record
//! its result. In one pool, 512 waiting callers would leave no thread for it.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{LazyLock, Mutex},
};

use sandbar_core::{Error, ErrorCode, MutexExt, Result};
use tokio::{
    runtime::{self, Builder, Handle, Runtime},
    task::JoinHandle,
};

use crate::actor::{acting_as_here, current_actor};

/// Threads of the waiting pool. More callers queue for a thread, so this is far above the number of
/// requests that a server admits at a time.
const MAX_WAITING_THREADS: usize = 8192;

/// The waiting pool of every tokio runtime of the process: a runtime that is used for its blocking
/// threads alone. A pool is not shared by runtimes, because a thread inherits the mount namespace
/// of the thread that starts it, and runtimes may be in different namespaces.
static POOLS: LazyLock<Mutex<HashMap<runtime::Id, Runtime>>> = LazyLock::new(Mutex::default);

/// Runs work that blocks, but waits for no other verb, box or peer, as the current actor and in the
/// current span. It runs to its end when the returned future is dropped.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    joined(tokio::task::spawn_blocking(in_context(work))).await
}

/// As [`blocking`], for work that may wait for another verb, a box or a peer.
pub(crate) async fn waiting<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    joined(spawn_waiting(work)?).await
}

/// As [`waiting`], without waiting for the outcome.
pub(crate) fn spawn_waiting<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let mut pools = POOLS.lock_unpoisoned();
    // The work uses timers and tasks of the caller's runtime, not of the pool's.
    let runtime = Handle::current();
    let pool = match pools.entry(runtime.id()) {
        Entry::Occupied(pool) => pool.into_mut(),
        Entry::Vacant(empty) => empty.insert(new_pool()?),
    };
    let work = in_context(work);
    Ok(pool.spawn_blocking(move || {
        let _entered = runtime.enter();
        work()
    }))
}

fn new_pool() -> Result<Runtime> {
    Builder::new_current_thread()
        .thread_name("sandbar-waiting")
        .max_blocking_threads(MAX_WAITING_THREADS)
        .build()
        .map_err(|error| {
            Error::new(ErrorCode::Unavailable, "no thread for work that waits").with_source(error)
        })
}

/// Returns `work` with the actor and the span of the caller.
fn in_context<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let (actor, span) = (current_actor(), tracing::Span::current());
    move || span.in_scope(|| acting_as_here(actor, work))
}

async fn joined<T>(task: JoinHandle<Result<T>>) -> Result<T> {
    task.await
        .unwrap_or_else(|error| Err(Error::internal("an operation panicked").with_source(error)))
}
