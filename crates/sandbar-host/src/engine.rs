//! [`Engine`]: the state of a host that its verbs work on.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use sandbar_core::{Error, ErrorCode, NetworkTraffic, OwnerMap, Result, SessionId};
use sandbar_oci::{ImageCache, ImageCacheSettings};
use sandbar_runtime::Runtime;
use sandbar_storage::{Storage, pack::Target};
use tokio::sync::Notify;

use crate::{
    HostConfig, HostParts,
    admission::not_found,
    audit_budget::{AuditBudget, Summaries},
    blocking::spawn_waiting,
    call_slots::CallSlots,
    data_directory::DataDirectory,
    default_limits::DefaultLimits,
    events::EventLog,
    incidents::Incidents,
    metrics::Metrics,
    network::{DecisionLog, SharedGateway},
    process::{self, StopReason},
    recovery,
    runtime_choice::{OpenedRuntime, open_runtime},
    saved_bases::SavedBases,
    secrets::SecretVault,
    session::Session,
    state::StateStore,
    tokens::TokenVault,
    traffic_token::TrafficKey,
    worker::Walks,
};

/// Time that processes have to end after SIGTERM when the host stops, within its
/// `shutdown_timeout`.
const STOP_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Sessions that are stopped at a time when the host stops.
const MAX_CONCURRENT_STOPS: usize = 32;

/// The state of a host that its verbs work on.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) config: HostConfig,
    /// Limits of sessions that request none.
    pub(crate) defaults: DefaultLimits,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) storage_reason: String,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) runtime_reason: String,
    pub(crate) state: StateStore,
    sessions: Mutex<HashMap<SessionId, Slot>>,
    /// Held while the `host` base is created, so that it is created once.
    pub(crate) host_base: Mutex<()>,
    /// Serialises deletion of a base with the step in which a session is recorded as hibernated,
    /// after which only its record shows that it needs the base.
    pub(crate) base_order: Mutex<()>,
    /// Blobs of images pulled from registries.
    pub(crate) images: ImageCache,
    /// Bases saved from sessions.
    pub(crate) saved_bases: SavedBases,
    /// Object store for the packs of hibernated sessions.
    pub(crate) packs: Target,
    pub(crate) active_commands: Arc<AtomicU64>,
    pub(crate) audit_budget: AuditBudget,
    pub(crate) incidents: Incidents,
    /// Recent events, for watchers.
    pub(crate) events: Arc<EventLog>,
    pub(crate) metrics: Metrics,
    /// The egress gateway of all sessions.
    pub(crate) gateway: SharedGateway,
    pub(crate) secrets: Arc<SecretVault>,
    pub(crate) tokens: TokenVault,
    /// Egress decisions that are not yet in the audit log.
    pub(crate) decisions: Arc<DecisionLog>,
    pub(crate) traffic_key: TrafficKey,
    /// Wakes the janitor when a session may expire before its next round.
    /// Worker processes, for jobs on the trees of sessions.
    pub(crate) walks: Walks,
    pub(crate) something_due: Notify,
    pub(crate) started: Instant,
    stopping: AtomicBool,
    pub(crate) directory: DataDirectory,
}

/// The holder of a session id.
#[derive(Debug)]
enum Slot {
    /// A session that is being created.
    Reserved,
    Ready(Arc<Session>),
}

/// Opens the image cache and removes unfinished pulls of an earlier host.
fn image_cache(config: &HostConfig, directory: &DataDirectory) -> Result<ImageCache> {
    let settings = ImageCacheSettings {
        trusted_certificates: config.egress_ca_file.clone(),
        ..ImageCacheSettings::default()
    };
    let cache = ImageCache::new(directory.images(), settings);
    cache.delete_pulls()?;
    Ok(cache)
}

impl Engine {
    pub(crate) fn open(config: HostConfig, parts: HostParts) -> Result<Arc<Self>> {
        let directory = DataDirectory::open(&config.data_dir)?;
        let state = StateStore::open(&directory.state_database()).map_err(|error| match error.code() {
            ErrorCode::PermissionDenied | ErrorCode::StorageFull => error
                .with_field("data_dir")
                .with_hint("choose a directory you can write to, on a disk with free space, with `--data-dir`"),
            _ => error,
        })?;
        // Before the storage: opening the runtime kills processes an earlier host left, which may
        // keep the storage busy.
        let OpenedRuntime {
            runtime,
            reason: runtime_reason,
        } = open_runtime(&config)?;
        let runtime = (parts.wrap_runtime)(runtime);
        let opened = (parts.open_storage)()?;
        let metrics = Metrics::new(opened.storage.kind(), runtime.kind());
        let defaults = DefaultLimits::new(
            &config,
            &runtime.facts().limits,
            &opened.storage.facts().quota,
        );
        let engine = Arc::new(Self {
            defaults,
            storage: opened.storage,
            storage_reason: opened.reason,
            runtime,
            runtime_reason,
            sessions: Mutex::default(),
            host_base: Mutex::new(()),
            base_order: Mutex::new(()),
            images: image_cache(&config, &directory)?,
            saved_bases: SavedBases::default(),
            packs: config.object_store_target()?,
            active_commands: Arc::default(),
            audit_budget: AuditBudget::default(),
            incidents: Incidents::default(),
            events: EventLog::new(),
            metrics,
            gateway: SharedGateway::new(&config),
            secrets: SecretVault::open(&state)?,
            tokens: TokenVault::default(),
            decisions: Arc::default(),
            state,
            traffic_key: TrafficKey::open(&directory.traffic_key())?,
            walks: Walks::default(),
            something_due: Notify::new(),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            directory,
            config,
        });
        engine.decisions.belongs_to(&engine);
        let recovered = recovery::recover(&engine);
        if let Err(error) = recovered {
            if let Err(close) = engine.storage.close() {
                tracing::warn!(error = close.chain(), "could not close the storage");
            }
            return Err(error);
        }
        // After recovery, which deletes the tokens of the sessions it removes.
        engine.tokens.load(&engine.state)?;
        engine.saved_bases.load(&engine.state)?;
        for record in engine.state.sessions()? {
            let session = Session::new(record.id.clone());
            engine.slots().insert(record.id, Slot::Ready(session));
        }
        Ok(engine)
    }

    /// Refuses new calls, then stops everything: tool calls first, then other operations, then
    /// processes, boxes and the storage. What is not done within `shutdown_timeout` is cancelled.
    pub(crate) fn close(engine: &Arc<Self>) -> Result<()> {
        engine.stopping.store(true, Ordering::SeqCst);
        let sessions: Vec<Arc<Session>> = engine
            .slots()
            .values()
            .filter_map(|slot| match slot {
                Slot::Ready(session) => Some(Arc::clone(session)),
                Slot::Reserved => None,
            })
            .collect();
        let (begun, timeout) = (Instant::now(), engine.config.shutdown_timeout);
        let left = || timeout.saturating_sub(begun.elapsed());
        drain_tool_calls(&sessions, timeout);
        for session in &sessions {
            if session.admission.wait_until_empty(left()) {
                continue;
            }
            session.streams.cancel();
            if !session.admission.wait_until_empty(STOP_GRACE_PERIOD) {
                tracing::warn!(session = %session.id, "stopping a session with operations in progress");
            }
        }
        let grace = STOP_GRACE_PERIOD.min(left());
        process::terminate(&sessions, StopReason::HostStopped, grace);
        let owners = stop_all(sessions);
        engine.decisions.close(engine);
        engine.write_audit_summaries(Summaries::All);
        let closed = engine.storage.close();
        drop(owners);
        engine.runtime.close().and(closed)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SessionId, Slot>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses calls once the host is stopping.
    pub(crate) fn admit(&self) -> Result<()> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorCode::Unavailable, "host is stopping")
                .with_hint("its sessions are kept; start it again with `sandbar up`"));
        }
        Ok(())
    }

    /// Returns a session and counts as a use of it.
    pub(crate) fn session(&self, id: &SessionId) -> Result<Arc<Session>> {
        self.session_unused(id)
            .inspect(|session| session.activity.touch())
    }

    /// Returns a session without counting as a use of it.
    pub(crate) fn session_unused(&self, id: &SessionId) -> Result<Arc<Session>> {
        self.admit()?;
        match self.slots().get(id) {
            Some(Slot::Ready(session)) => Ok(Arc::clone(session)),
            Some(Slot::Reserved) => Err(Error::new(
                ErrorCode::InvalidState,
                format!("session `{id}` is still being created"),
            )),
            None => Err(not_found(id)),
        }
    }

    /// Returns the call slots of a session that exists.
    pub(crate) fn call_slots(&self, id: &SessionId) -> Option<Arc<CallSlots>> {
        match self.slots().get(id) {
            Some(Slot::Ready(session)) => Some(Arc::clone(&session.slots)),
            _ => None,
        }
    }

    /// Whether the session exists, in any state.
    pub(crate) fn has_session(&self, id: &SessionId) -> bool {
        matches!(self.slots().get(id), Some(Slot::Ready(_)))
    }

    /// Whether the session is being created.
    pub(crate) fn is_reserved(&self, id: &SessionId) -> bool {
        matches!(self.slots().get(id), Some(Slot::Reserved))
    }

    /// Counts the tool calls in progress.
    pub(crate) fn active_tools(&self) -> u64 {
        let ready = |slot: &Slot| match slot {
            Slot::Ready(session) => session.calls.count() as u64,
            Slot::Reserved => 0,
        };
        self.slots().values().map(ready).sum()
    }

    /// Counts the sessions, including those being created.
    pub(crate) fn session_count(&self) -> usize {
        self.slots().len()
    }

    /// Reserves the ids of sessions to create: all of them, or none.
    pub(crate) fn reserve(self: &Arc<Self>, ids: &[SessionId]) -> Result<Reservation> {
        self.admit()?;
        let mut slots = self.slots();
        let limit = self.config.max_sessions;
        if limit > 0 && slots.len() + ids.len() > limit {
            return Err(Error::new(
                ErrorCode::MaxSessionsReached,
                format!(
                    "host has {} sessions and allows at most {limit}",
                    slots.len()
                ),
            )
            .with_hint("destroy some, or raise `max_sessions`"));
        }
        for (position, id) in ids.iter().enumerate() {
            if slots.contains_key(id)
                || ids[..position].contains(id)
                || self.saved_bases.has_volume(id)
            {
                return Err(Error::new(
                    ErrorCode::SessionExists,
                    format!("session `{id}` exists already"),
                )
                .with_field("session_id")
                .with_hint("choose another id, or leave it out for a random one"));
            }
        }
        for id in ids {
            slots.insert(id.clone(), Slot::Reserved);
        }
        Ok(Reservation {
            engine: Arc::clone(self),
            ids: ids.to_vec(),
        })
    }

    /// Sums up the egress traffic since this host started, and the connections open now.
    pub(crate) fn traffic(&self) -> NetworkTraffic {
        let slots = self.slots();
        let mut total = NetworkTraffic {
            bytes_sent: self.metrics.network_sent.get(),
            bytes_received: self.metrics.network_received.get(),
            ..NetworkTraffic::default()
        };
        for slot in slots.values() {
            if let Slot::Ready(session) = slot {
                let traffic = session.traffic.snapshot();
                total.bytes_sent += traffic.bytes_sent;
                total.bytes_received += traffic.bytes_received;
                total.connections += traffic.connections;
            }
        }
        total
    }

    /// Frees the id of a session that is gone.
    pub(crate) fn release(&self, id: &SessionId) {
        // Before the id is free: tokens of this session must not open the next one with its id.
        self.tokens.forget_session(id);
        let mut slots = self.slots();
        // Under one lock, so that the sum in `traffic` never decreases.
        if let Some(Slot::Ready(session)) = slots.remove(id) {
            self.metrics.keep_traffic(session.traffic.snapshot());
        }
    }
}

/// Reserved ids of sessions that are being created. Dropping it frees them.
#[derive(Debug)]
pub(crate) struct Reservation {
    engine: Arc<Engine>,
    ids: Vec<SessionId>,
}

impl Reservation {
    /// Turns the reserved ids into sessions.
    pub(crate) fn keep(mut self) {
        let mut slots = self.engine.slots();
        for id in std::mem::take(&mut self.ids) {
            let session = Session::new(id.clone());
            slots.insert(id, Slot::Ready(session));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut slots = self.engine.slots();
        for id in &self.ids {
            slots.remove(id);
        }
    }
}

/// Stops sessions side by side, so that one that does not stop delays only itself. Returns their
/// uid ranges.
fn stop_all(sessions: Vec<Arc<Session>>) -> Vec<Arc<OwnerMap>> {
    let stop = async |session: Arc<Session>| {
        let id = session.id.clone();
        let task = spawn_waiting(move || session.stop(StopReason::HostStopped))?;
        let stopped = task.await.unwrap_or_else(|error| {
            Err(Error::internal("stop of a session panicked").with_source(error))
        });
        stopped.inspect_err(|error| {
            tracing::warn!(session = %id, error = error.chain(), "could not stop a session");
        })
    };
    let all = stream::iter(sessions)
        .map(stop)
        .buffer_unordered(MAX_CONCURRENT_STOPS)
        .filter_map(async |stopped: Result<_>| stopped.ok().flatten())
        .collect();
    tokio::runtime::Handle::current().block_on(all)
}

/// Waits for the tool calls in progress, and cancels those that exceed `timeout`.
fn drain_tool_calls(sessions: &[Arc<Session>], timeout: Duration) {
    let drained = async || {
        for session in sessions {
            session.calls.drained().await;
        }
    };
    tokio::runtime::Handle::current().block_on(async {
        if tokio::time::timeout(timeout, drained()).await.is_err() {
            for session in sessions {
                session.calls.cancel();
            }
            drained().await;
        }
    });
}
