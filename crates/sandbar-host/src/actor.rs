//! On whose behalf something is done.

use sandbar_core::Actor;

tokio::task_local! {
    static ACTOR: Actor;
}

/// Runs `work` so that the audit log names `actor` for whatever it asks of a host.
pub async fn acting_as<F: Future>(actor: Actor, work: F) -> F::Output {
    ACTOR.scope(actor, work).await
}

/// As [`acting_as`], on this thread.
pub(crate) fn acting_as_here<T>(actor: Actor, work: impl FnOnce() -> T) -> T {
    ACTOR.sync_scope(actor, work)
}

/// Who acts here and now.
pub(crate) fn current_actor() -> Actor {
    ACTOR.try_with(Actor::clone).unwrap_or_else(|_| Actor::local())
}
