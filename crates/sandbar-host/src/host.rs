//! [`Host`]: start, shutdown, and the way verbs run.

use std::{path::PathBuf, sync::Arc};

use sandbar_core::{Actor, Capabilities, Capability, Result};
use sandbar_runtime::Runtime;
use sandbar_storage::OpenedStorage;

use crate::{
    DefaultLimits, HostConfig,
    actor::acting_as,
    blocking::{blocking, waiting},
    call_slots::holding,
    engine::Engine,
    janitor::Janitor,
    runtime_choice::boundary,
    verb::{Call, Verb},
};

/// The sessions of this machine. Methods may be called from any task; a method whose future is
/// dropped still runs to its end, unless it waits for other calls on its session.
#[derive(Debug)]
pub struct Host {
    engine: Arc<Engine>,
    janitor: Janitor,
}

/// The storage and runtime of a host, for callers that replace or wrap them.
#[expect(
    missing_debug_implementations,
    reason = "closures have nothing to show"
)]
pub struct HostParts {
    pub open_storage: OpenStorage,
    /// Wraps the runtime that the configuration names.
    pub wrap_runtime: WrapRuntime,
}

pub type OpenStorage = Box<dyn FnOnce() -> Result<OpenedStorage> + Send>;
pub type WrapRuntime = Box<dyn FnOnce(Arc<dyn Runtime>) -> Arc<dyn Runtime> + Send>;

impl Host {
    /// Opens the data directory, finishes or undoes the operations an earlier host left
    /// unfinished, and takes over its sessions.
    pub async fn start(config: HostConfig) -> Result<Arc<Self>> {
        let storage = config.storage();
        let parts = HostParts {
            open_storage: Box::new(move || sandbar_storage::open(&storage)),
            wrap_runtime: Box::new(|runtime| runtime),
        };
        Self::start_with(config, parts).await
    }

    /// As [`start`](Self::start), with the given storage and runtime.
    pub async fn start_with(config: HostConfig, parts: HostParts) -> Result<Arc<Self>> {
        config.validate()?;
        // The audit log names the host for what recovery does.
        let engine =
            acting_as(Actor::host(), blocking(move || Engine::open(config, parts))).await?;
        let janitor = Janitor::start(Arc::clone(&engine));
        Ok(Arc::new(Self { engine, janitor }))
    }

    /// Refuses new calls, stops what runs and closes the storage. Deletes nothing.
    pub async fn shutdown(&self) -> Result<()> {
        self.janitor.stop().await;
        self.run(Call::of(Verb::Shutdown), Engine::close).await
    }

    /// Returns a directory below the data directory for the files of one API surface.
    pub fn directory_for(&self, surface: &str) -> Result<PathBuf> {
        self.engine.directory.part(surface)
    }

    /// Returns the capabilities of this host, with a reason for each that is missing.
    pub fn capabilities(&self) -> Capabilities {
        let facts = self.engine.storage.facts();
        Capabilities {
            storage: self.engine.storage.kind(),
            runtime: self.engine.runtime.kind(),
            isolation: self.engine.runtime.isolation().to_owned(),
            snapshots: Capability::Yes,
            rollback: Capability::Yes,
            keep_later: facts.keep_later.clone(),
            fork: Capability::Yes,
            quota: facts.quota.clone(),
            constant_time_snapshots: facts.constant_time_snapshots.clone(),
            layered: facts.layered.clone(),
            pause: self.engine.runtime.facts().pause.clone(),
            checkpoint: self.engine.runtime.checkpoint().clone(),
            limits: self.engine.runtime.facts().limits.clone(),
            network: self.engine.runtime.network().clone(),
            users: self.engine.runtime.facts().users.clone(),
            root_rights: self.engine.root_rights(),
        }
    }

    /// Returns the limits of sessions that request none.
    pub fn default_limits(&self) -> &DefaultLimits {
        &self.engine.defaults
    }

    /// Describes the storage and why it was chosen.
    pub fn storage_summary(&self) -> String {
        let facts = self.engine.storage.facts();
        format!(
            "{} — {} ({})",
            self.engine.storage.kind(),
            facts.description,
            self.engine.storage_reason
        )
    }

    /// Describes the runtime, its isolation boundary and why it was chosen.
    pub fn runtime_summary(&self) -> String {
        let (runtime, reason) = (&self.engine.runtime, &self.engine.runtime_reason);
        format!("{} — {} ({reason})", runtime.kind(), boundary(&**runtime))
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Runs a verb on the pool it belongs to, in a slot of its session. Dropping the returned
    /// future does not stop a verb that has begun.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: Call,
        work: impl FnOnce(&Arc<Engine>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let engine = Arc::clone(&self.engine);
        let waits = call.verb.waits();
        let slots = call
            .session
            .as_ref()
            .and_then(|session| engine.call_slots(session));
        let slot = match slots {
            Some(slots) => match slots.acquire(call.verb.class()).await {
                Ok(slot) => Some(slot),
                Err(error) => {
                    engine.incidents.note(&call, &error);
                    return Err(error);
                }
            },
            // The session does not exist, or the call is to the host itself.
            None => None,
        };
        let work = holding(slot, move || engine.perform(call, work));
        if waits {
            waiting(work).await
        } else {
            blocking(work).await
        }
    }
}
