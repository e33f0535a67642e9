//! The actor on whose behalf a verb runs, for the audit log.

use sandbar_core::Actor;

tokio::task_local! {
    static ACTOR: Actor;
}

/// Runs `work` with `actor` as the actor of every verb that it calls.
pub async fn acting_as<F: Future>(actor: Actor, work: F) -> F::Output {
    ACTOR.scope(actor, work).await
}

/// As [`acting_as`], for synchronous work.
pub(crate) fn acting_as_here<T>(actor: Actor, work: impl FnOnce() -> T) -> T {
    ACTOR.sync_scope(actor, work)
}

/// Returns the current actor.
pub(crate) fn current_actor() -> Actor {
    ACTOR
        .try_with(Actor::clone)
        .unwrap_or_else(|_| Actor::local())
}
