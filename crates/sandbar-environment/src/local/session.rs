//! What there is of a session: its files, its sandbox, its calls, and who may come in.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, Resources, Result, SessionId};
use sandbar_runtime::{Runtime, Sandbox};
use sandbar_storage::SessionTree;
use sandbar_tools::calls::ToolCalls;
use tokio::sync::RwLock;

use super::{answers::Answers, workplace::Workplace};
use crate::EnvironmentState;

/// A session of this process.
#[derive(Debug)]
pub(super) struct LocalSession {
    /// First, so that it is dropped before what it stands on. Dropped, it ends everything that runs in it.
    sandbox: Mutex<Option<Arc<dyn Sandbox>>>,
    pub(super) id: SessionId,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) resources: Resources,
    pub(super) tool_timeout: Duration,
    pub(super) pause_drain_timeout: Duration,
    pub(super) tree: SessionTree,
    pub(super) calls: ToolCalls,
    pub(super) answers: Answers,
    /// Held by everybody who works here; by pause, resume and destroy alone.
    gate: Arc<RwLock<()>>,
    state: Mutex<EnvironmentState>,
    pub(super) workplace: Workplace,
}

/// What a session is made with.
pub(super) struct Parts {
    pub(super) id: SessionId,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) workplace: Workplace,
    pub(super) env: BTreeMap<String, String>,
    pub(super) resources: Resources,
    pub(super) tool_timeout: Duration,
    pub(super) pause_drain_timeout: Duration,
}

impl LocalSession {
    /// Blocks.
    pub(super) fn new(parts: Parts) -> Result<Self> {
        Ok(Self {
            tree: parts.workplace.tree()?,
            id: parts.id,
            runtime: parts.runtime,
            env: parts.env,
            resources: parts.resources,
            tool_timeout: parts.tool_timeout,
            pause_drain_timeout: parts.pause_drain_timeout,
            calls: ToolCalls::default(),
            answers: Answers::default(),
            gate: Arc::default(),
            state: Mutex::new(EnvironmentState::Active),
            sandbox: Mutex::default(),
            workplace: parts.workplace,
        })
    }

    pub(super) fn state(&self) -> EnvironmentState {
        *lock(&self.state)
    }

    /// Waits until nobody has the session alone, and keeps it that way.
    pub(super) async fn enter(&self) -> Result<tokio::sync::RwLockReadGuard<'_, ()>> {
        let inside = self.gate.read().await;
        self.active().map(|()| inside)
    }

    /// Refuses unless the session's clock runs.
    pub(super) fn active(&self) -> Result<()> {
        match self.state() {
            EnvironmentState::Active => Ok(()),
            EnvironmentState::Paused => {
                Err(Error::new(ErrorCode::SessionPaused, format!("session `{}` is paused", self.id)))
            }
            state => Err(Error::new(ErrorCode::SessionDestroying, format!("session `{}` is {state}", self.id))),
        }
    }

    /// Refuses what has no files any more.
    pub(super) fn present(&self) -> Result<()> {
        if self.state() == EnvironmentState::Paused { Ok(()) } else { self.active() }
    }

    /// The sandbox commands run in, started when first needed. Blocks.
    pub(super) fn sandbox(&self) -> Result<Arc<dyn Sandbox>> {
        let mut slot = lock(&self.sandbox);
        if let Some(sandbox) = &*slot {
            if sandbox.is_alive() {
                return Ok(Arc::clone(sandbox));
            }
            tracing::warn!(session = %self.id, "the sandbox had died; it is replaced");
            sandbox.stop()?;
            *slot = None;
        }
        let sandbox = self.workplace.open_sandbox(&self.runtime, &self.id, &self.resources)?;
        Ok(Arc::clone(slot.insert(sandbox)))
    }

    /// Freezes what runs, once the calls under way are done.
    pub(super) async fn pause(self: Arc<Self>) -> Result<()> {
        let patience = self.pause_drain_timeout;
        let alone = tokio::time::timeout(patience, Arc::clone(&self.gate).write_owned()).await.map_err(|_| {
            Error::new(ErrorCode::ToolsInFlight, format!("tools of session `{}` are still under way", self.id))
                .with_hint("wait for them, or cancel them")
        })?;
        self.change(alone, EnvironmentState::Paused, |sandbox| {
            sandbox.freeze().inspect_err(|_| {
                // It may have come half way.
                if let Err(error) = sandbox.thaw() {
                    tracing::error!(error = error.chain(), "could not thaw a sandbox that was not paused");
                }
            })
        })
        .await
    }

    /// Lets what was frozen go on.
    pub(super) async fn resume(self: Arc<Self>) -> Result<()> {
        let alone = Arc::clone(&self.gate).write_owned().await;
        self.change(alone, EnvironmentState::Active, |sandbox| sandbox.thaw()).await
    }

    /// Goes from active to paused or back, while nobody else is here.
    async fn change(
        self: Arc<Self>,
        alone: tokio::sync::OwnedRwLockWriteGuard<()>,
        to: EnvironmentState,
        step: impl FnOnce(&dyn Sandbox) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        blocking(move || {
            let _alone = alone;
            self.present()?;
            if self.state() == to {
                return Ok(());
            }
            let sandbox = lock(&self.sandbox).clone().filter(|sandbox| sandbox.is_alive());
            if let Some(sandbox) = sandbox {
                step(&*sandbox)?;
            }
            // A destroy that is on its way has said so already.
            let mut state = lock(&self.state);
            if matches!(*state, EnvironmentState::Active | EnvironmentState::Paused) {
                *state = to;
            }
            Ok(())
        })
        .await
    }

    /// Ends everything. When that fails it can be tried again.
    pub(super) async fn destroy(self: Arc<Self>) -> Result<()> {
        {
            let mut state = lock(&self.state);
            if *state == EnvironmentState::Destroyed {
                return Ok(());
            }
            *state = EnvironmentState::Destroying;
        }
        self.calls.cancel();
        let alone = Arc::clone(&self.gate).write_owned().await;
        blocking(move || {
            let _alone = alone;
            let outcome = self.stop();
            if outcome.is_ok() {
                self.workplace.close();
            }
            *lock(&self.state) = if outcome.is_ok() { EnvironmentState::Destroyed } else { EnvironmentState::Failed };
            outcome
        })
        .await
    }

    /// Ends what runs. Blocks.
    fn stop(&self) -> Result<()> {
        let mut slot = lock(&self.sandbox);
        if let Some(sandbox) = &*slot {
            sandbox.stop()?;
        }
        *slot = None;
        Ok(())
    }
}

/// Runs work that blocks off the async threads. It comes to its end also when nobody waits for it.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::internal("work on a session panicked").with_source(error)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
