//! One session: its files, its sandbox, its tool calls and its admission lock.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, MutexExt as _, Resources, Result, SessionId};
use sandbar_runtime::{Runtime, Sandbox};
use sandbar_tools::calls::ToolCalls;
use sandbar_tree::SessionTree;
use tokio::sync::RwLock;

use super::{replay_cache::ReplayCache, session_root::SessionRoot};
use crate::EnvironmentState;

/// A session of this process.
#[derive(Debug)]
pub(super) struct LocalSession {
    /// First field, so that it is dropped before its root. Dropping it ends all its processes.
    sandbox: Mutex<Option<Arc<dyn Sandbox>>>,
    pub(super) id: SessionId,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) resources: Resources,
    pub(super) tool_timeout: Duration,
    pub(super) pause_drain_timeout: Duration,
    pub(super) tree: SessionTree,
    pub(super) calls: ToolCalls,
    pub(super) results: ReplayCache,
    /// Admission lock: shared by tool calls and writes, exclusive for pause, resume and destroy.
    admission: Arc<RwLock<()>>,
    state: Mutex<EnvironmentState>,
    pub(super) root: SessionRoot,
}

/// Parts of a new session.
pub(super) struct Parts {
    pub(super) id: SessionId,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) root: SessionRoot,
    pub(super) env: BTreeMap<String, String>,
    pub(super) resources: Resources,
    pub(super) tool_timeout: Duration,
    pub(super) pause_drain_timeout: Duration,
}

impl LocalSession {
    /// Creates a session. Blocks.
    pub(super) fn new(parts: Parts) -> Result<Self> {
        Ok(Self {
            tree: parts.root.tree()?,
            id: parts.id,
            runtime: parts.runtime,
            env: parts.env,
            resources: parts.resources,
            tool_timeout: parts.tool_timeout,
            pause_drain_timeout: parts.pause_drain_timeout,
            calls: ToolCalls::default(),
            results: ReplayCache::default(),
            admission: Arc::default(),
            state: Mutex::new(EnvironmentState::Active),
            sandbox: Mutex::default(),
            root: parts.root,
        })
    }

    pub(super) fn state(&self) -> EnvironmentState {
        *lock(&self.state)
    }

    /// Takes the admission lock shared, and checks that the session is active.
    pub(super) async fn enter(&self) -> Result<tokio::sync::RwLockReadGuard<'_, ()>> {
        let inside = self.admission.read().await;
        self.active().map(|()| inside)
    }

    /// Returns an error unless the session is active.
    pub(super) fn active(&self) -> Result<()> {
        match self.state() {
            EnvironmentState::Active => Ok(()),
            EnvironmentState::Paused => Err(Error::new(
                ErrorCode::SessionPaused,
                format!("session `{}` is paused", self.id),
            )),
            state => Err(Error::new(
                ErrorCode::SessionDestroying,
                format!("session `{}` is {state}", self.id),
            )),
        }
    }

    /// Returns an error unless the session is active or paused: its files exist in both states.
    pub(super) fn present(&self) -> Result<()> {
        if self.state() == EnvironmentState::Paused {
            Ok(())
        } else {
            self.active()
        }
    }

    /// Returns the sandbox for commands, started on first use. Blocks.
    pub(super) fn sandbox(&self) -> Result<Arc<dyn Sandbox>> {
        let mut slot = lock(&self.sandbox);
        if let Some(sandbox) = &*slot {
            if sandbox.is_alive() {
                return Ok(Arc::clone(sandbox));
            }
            tracing::warn!(session = %self.id, "sandbox died and is replaced");
            sandbox.stop()?;
            *slot = None;
        }
        let sandbox = self
            .root
            .open_sandbox(&self.runtime, &self.id, &self.resources)?;
        Ok(Arc::clone(slot.insert(sandbox)))
    }

    /// Freezes all processes after the running calls have ended.
    pub(super) async fn pause(self: Arc<Self>) -> Result<()> {
        let drain = self.pause_drain_timeout;
        let exclusive = tokio::time::timeout(drain, Arc::clone(&self.admission).write_owned())
            .await
            .map_err(|_| {
                Error::new(
                    ErrorCode::ToolsInFlight,
                    format!("session `{}` still has running tool calls", self.id),
                )
                .with_hint("wait for them, or cancel them")
            })?;
        self.change(exclusive, EnvironmentState::Paused, |sandbox| {
            sandbox.freeze().inspect_err(|_| {
                // Some processes may be frozen already.
                if let Err(error) = sandbox.thaw() {
                    tracing::error!(
                        error = error.chain(),
                        "could not thaw a sandbox after a failed pause"
                    );
                }
            })
        })
        .await
    }

    /// Lets the frozen processes continue.
    pub(super) async fn resume(self: Arc<Self>) -> Result<()> {
        let exclusive = Arc::clone(&self.admission).write_owned().await;
        self.change(exclusive, EnvironmentState::Active, |sandbox| {
            sandbox.thaw()
        })
        .await
    }

    /// Changes between active and paused under the exclusive admission lock.
    async fn change(
        self: Arc<Self>,
        exclusive: tokio::sync::OwnedRwLockWriteGuard<()>,
        to: EnvironmentState,
        step: impl FnOnce(&dyn Sandbox) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        blocking(move || {
            let _exclusive = exclusive;
            self.present()?;
            if self.state() == to {
                return Ok(());
            }
            let sandbox = lock(&self.sandbox)
                .clone()
                .filter(|sandbox| sandbox.is_alive());
            if let Some(sandbox) = sandbox {
                step(&*sandbox)?;
            }
            // A concurrent destroy has changed the state already.
            let mut state = lock(&self.state);
            if matches!(*state, EnvironmentState::Active | EnvironmentState::Paused) {
                *state = to;
            }
            Ok(())
        })
        .await
    }

    /// Ends all processes and closes the root. May be retried after an error.
    pub(super) async fn destroy(self: Arc<Self>) -> Result<()> {
        {
            let mut state = lock(&self.state);
            if *state == EnvironmentState::Destroyed {
                return Ok(());
            }
            *state = EnvironmentState::Destroying;
        }
        self.calls.cancel();
        let exclusive = Arc::clone(&self.admission).write_owned().await;
        blocking(move || {
            let _exclusive = exclusive;
            let outcome = self.stop();
            if outcome.is_ok() {
                self.root.close();
            }
            *lock(&self.state) = if outcome.is_ok() {
                EnvironmentState::Destroyed
            } else {
                EnvironmentState::Failed
            };
            outcome
        })
        .await
    }

    /// Ends all processes. Blocks.
    fn stop(&self) -> Result<()> {
        let mut slot = lock(&self.sandbox);
        if let Some(sandbox) = &*slot {
            sandbox.stop()?;
        }
        *slot = None;
        Ok(())
    }
}

/// Runs blocking work on the blocking pool. It completes even if the caller is dropped.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            Err(Error::internal("work on a session panicked").with_source(error))
        })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}
