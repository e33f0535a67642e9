//! The host: what it is made of, how it starts and stops.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sandbar_core::{Actor, Capabilities, Capability, Error, ErrorCode, NetworkTraffic, Result, SessionId};
use sandbar_registry::{ImageCache, ImageCacheSettings};
use sandbar_runtime::Runtime;
use sandbar_storage::{OpenedStorage, Storage, pack::Target};
use tokio::sync::Notify;

use crate::{
    HostConfig,
    actor::{acting_as, acting_as_here, current_actor},
    data_directory::DataDirectory,
    events::EventLog,
    gate::not_found,
    incidents::Incidents,
    janitor::Janitor,
    metrics::Metrics,
    network::{DecisionLog, SharedGateway},
    process::{self, StopReason},
    recovery,
    runtime_choice::{OpenedRuntime, boundary, open_runtime},
    saved_bases::SavedBases,
    secrets::SecretVault,
    session::Session,
    state::StateStore,
    tokens::TokenVault,
    traffic_token::TrafficKey,
    verb::{Call, Verb},
};

/// How long processes have to end by themselves when the host stops, within its `shutdown_timeout`.
const GRACE: Duration = Duration::from_secs(5);

/// Sessions on this machine. Methods may be called from any task, and run to their end when the caller goes away.
#[derive(Debug)]
pub struct Host {
    inner: Arc<Inner>,
    janitor: Janitor,
}

/// What a host is built on.
#[expect(missing_debug_implementations, reason = "closures have nothing to show")]
pub struct HostParts {
    pub open_storage: OpenStorage,
    /// Puts something between the host and the runtime its configuration names.
    pub wrap_runtime: WrapRuntime,
}

pub type OpenStorage = Box<dyn FnOnce() -> Result<OpenedStorage> + Send>;
pub type WrapRuntime = Box<dyn FnOnce(Arc<dyn Runtime>) -> Arc<dyn Runtime> + Send>;

/// What verbs work on.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: HostConfig,
    pub(crate) storage: Arc<dyn Storage>,
    storage_reason: String,
    pub(crate) runtime: Arc<dyn Runtime>,
    runtime_reason: String,
    pub(crate) state: StateStore,
    sessions: Mutex<HashMap<SessionId, Slot>>,
    /// Held while the `host` base is made, so that it is made once.
    pub(crate) host_base: Mutex<()>,
    /// Held while a base is deleted, and while a session goes from standing on one to being hibernated.
    pub(crate) base_order: Mutex<()>,
    /// Parts of images from registries.
    pub(crate) images: ImageCache,
    /// Bases that were made from sessions.
    pub(crate) saved_bases: SavedBases,
    /// Where hibernated sessions are.
    pub(crate) packs: Target,
    pub(crate) active_commands: Arc<AtomicU64>,
    pub(crate) incidents: Incidents,
    /// What happened last, for those who watch.
    pub(crate) events: Arc<EventLog>,
    pub(crate) metrics: Metrics,
    /// Serves the network of sessions that have one.
    pub(crate) gateway: SharedGateway,
    pub(crate) secrets: Arc<SecretVault>,
    pub(crate) tokens: TokenVault,
    /// What was decided about connections, on its way into the audit log.
    pub(crate) decisions: Arc<DecisionLog>,
    pub(crate) traffic_key: TrafficKey,
    /// Told when a session was made that may be due before the janitor looks again.
    pub(crate) something_due: Notify,
    pub(crate) started: Instant,
    stopping: AtomicBool,
    directory: DataDirectory,
}

/// A name that is taken.
#[derive(Debug)]
enum Slot {
    /// By a session that is being made.
    Reserved,
    Ready(Arc<Session>),
}

impl Host {
    /// Opens the data directory, finishes or undoes what an earlier host was about to do, and takes over its sessions.
    pub async fn start(config: HostConfig) -> Result<Arc<Self>> {
        let storage = config.storage();
        let parts = HostParts {
            open_storage: Box::new(move || sandbar_storage::open(&storage)),
            wrap_runtime: Box::new(|runtime| runtime),
        };
        Self::start_with(config, parts).await
    }

    /// As [`start`](Self::start), over parts of the caller's own.
    pub async fn start_with(config: HostConfig, parts: HostParts) -> Result<Arc<Self>> {
        config.validate()?;
        // What is finished or undone now is the host's own doing.
        let inner = acting_as(Actor::host(), blocking(move || Inner::open(config, parts))).await?;
        let janitor = Janitor::start(Arc::clone(&inner));
        Ok(Arc::new(Self { inner, janitor }))
    }

    /// Refuses new work, ends what runs, lets go of the storage. It deletes nothing.
    pub async fn shutdown(&self) -> Result<()> {
        self.janitor.stop().await;
        self.run(Call::of(Verb::Shutdown), Inner::close).await
    }

    /// A directory below the data directory for what a surface of this host keeps, under a name nobody else uses.
    pub fn directory_for(&self, surface: &str) -> Result<PathBuf> {
        self.inner.directory.part(surface)
    }

    /// What this host can do, with reasons for what it cannot.
    pub fn capabilities(&self) -> Capabilities {
        let facts = self.inner.storage.facts();
        Capabilities {
            storage: self.inner.storage.kind(),
            runtime: self.inner.runtime.kind(),
            isolation: self.inner.runtime.isolation().to_owned(),
            snapshots: Capability::Yes,
            rollback: Capability::Yes,
            keep_later: facts.keep_later.clone(),
            fork: Capability::Yes,
            quota: facts.quota.clone(),
            constant_time_snapshots: facts.constant_time_snapshots.clone(),
            layered: facts.layered.clone(),
            pause: self.inner.runtime.facts().pause.clone(),
            checkpoint: self.inner.runtime.checkpoint().clone(),
            limits: self.inner.runtime.facts().limits.clone(),
            network: self.inner.runtime.network().clone(),
            users: self.inner.runtime.facts().users.clone(),
            root_rights: self.inner.root_rights(),
        }
    }

    /// The storage and why it was chosen, for people.
    pub fn storage_summary(&self) -> String {
        let facts = self.inner.storage.facts();
        format!("{} — {} ({})", self.inner.storage.kind(), facts.description, self.inner.storage_reason)
    }

    /// The runtime, the boundary it gives here and why it was chosen, for people.
    pub fn runtime_summary(&self) -> String {
        let (runtime, reason) = (&self.inner.runtime, &self.inner.runtime_reason);
        format!("{} — {} ({reason})", runtime.kind(), boundary(&**runtime))
    }

    /// What verbs work on.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Runs a verb to its end on a thread of its own. Dropping the returned future does not stop it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: Call,
        work: impl FnOnce(&Arc<Inner>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.perform(call, work)).await
    }
}

/// Runs blocking work off the async threads, for whoever acts now and in the span it is asked for in.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (actor, span) = (current_actor(), tracing::Span::current());
    tokio::task::spawn_blocking(move || span.in_scope(|| acting_as_here(actor, work)))
        .await
        .unwrap_or_else(|error| Err(Error::internal("an operation panicked").with_source(error)))
}

/// The cache, without what a host that was killed left of its pulls.
fn image_cache(config: &HostConfig, directory: &DataDirectory) -> Result<ImageCache> {
    let settings =
        ImageCacheSettings { trusted_certificates: config.egress_ca_file.clone(), ..ImageCacheSettings::default() };
    let cache = ImageCache::new(directory.images(), settings);
    cache.forget_pulls()?;
    Ok(cache)
}

impl Inner {
    fn open(config: HostConfig, parts: HostParts) -> Result<Arc<Self>> {
        let directory = DataDirectory::open(&config.data_dir)?;
        let state = StateStore::open(&directory.state_database()).map_err(|error| match error.code() {
            ErrorCode::PermissionDenied | ErrorCode::StorageFull => error
                .with_field("data_dir")
                .with_hint("choose a directory you can write to, on a disk with free space, with `--data-dir`"),
            _ => error,
        })?;
        // Before the storage, so that nothing an earlier host left running holds on to it.
        let OpenedRuntime { runtime, reason: runtime_reason } = open_runtime(&config)?;
        let runtime = (parts.wrap_runtime)(runtime);
        let opened = (parts.open_storage)()?;
        let metrics = Metrics::new(opened.storage.kind(), runtime.kind());
        let inner = Arc::new(Self {
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
            incidents: Incidents::default(),
            events: EventLog::new(),
            metrics,
            gateway: SharedGateway::new(&config),
            secrets: SecretVault::open(&state)?,
            tokens: TokenVault::default(),
            decisions: Arc::default(),
            state,
            traffic_key: TrafficKey::open(&directory.traffic_key())?,
            something_due: Notify::new(),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            directory,
            config,
        });
        inner.decisions.belongs_to(&inner);
        let recovered = recovery::recover(&inner);
        if let Err(error) = recovered {
            if let Err(close) = inner.storage.close() {
                tracing::warn!(error = close.chain(), "could not let go of the storage");
            }
            return Err(error);
        }
        // After recovery: the tokens of sessions it has removed are gone.
        inner.tokens.load(&inner.state)?;
        inner.saved_bases.load(&inner.state)?;
        for record in inner.state.sessions()? {
            let session = Session::new(record.id.clone());
            inner.slots().insert(record.id, Slot::Ready(session));
        }
        Ok(inner)
    }

    fn close(inner: &Arc<Self>) -> Result<()> {
        inner.stopping.store(true, Ordering::SeqCst);
        let sessions: Vec<Arc<Session>> = inner
            .slots()
            .values()
            .filter_map(|slot| match slot {
                Slot::Ready(session) => Some(Arc::clone(session)),
                Slot::Reserved => None,
            })
            .collect();
        let (asked, patience) = (Instant::now(), inner.config.shutdown_timeout);
        let left = || patience.saturating_sub(asked.elapsed());
        drain(&sessions, patience);
        for session in &sessions {
            if session.gate.wait_until_empty(left()) {
                continue;
            }
            session.streams.cancel();
            if !session.gate.wait_until_empty(GRACE) {
                tracing::warn!(session = %session.id, "stopping while something is still under way in a session");
            }
        }
        let grace = GRACE.min(left());
        process::stop_gently(&sessions, StopReason::HostStopped, grace);
        let mut owners = Vec::new();
        for session in sessions {
            match session.stop(StopReason::HostStopped) {
                Ok(of_session) => owners.extend(of_session),
                Err(error) => {
                    tracing::warn!(session = %session.id, error = error.chain(), "could not stop a session");
                }
            }
        }
        inner.decisions.close(inner);
        let closed = inner.storage.close();
        drop(owners);
        inner.runtime.close().and(closed)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SessionId, Slot>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses work once the host is stopping.
    pub(crate) fn admit(&self) -> Result<()> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorCode::Unavailable, "this host is stopping")
                .with_hint("its sessions are kept; start it again with `sandbar up`"));
        }
        Ok(())
    }

    /// The session of this name, which is used now.
    pub(crate) fn session(&self, id: &SessionId) -> Result<Arc<Session>> {
        self.session_unused(id).inspect(|session| session.activity.touch())
    }

    /// The session of this name, for those whose interest is no use of it.
    pub(crate) fn session_unused(&self, id: &SessionId) -> Result<Arc<Session>> {
        self.admit()?;
        match self.slots().get(id) {
            Some(Slot::Ready(session)) => Ok(Arc::clone(session)),
            Some(Slot::Reserved) => {
                Err(Error::new(ErrorCode::InvalidState, format!("session `{id}` is still being created")))
            }
            None => Err(not_found(id)),
        }
    }

    /// Whether there is a session of this name, however it is.
    pub(crate) fn has_session(&self, id: &SessionId) -> bool {
        matches!(self.slots().get(id), Some(Slot::Ready(_)))
    }

    /// Whether a session of this name is being made.
    pub(crate) fn is_reserved(&self, id: &SessionId) -> bool {
        matches!(self.slots().get(id), Some(Slot::Reserved))
    }

    /// How many tool calls are under way.
    pub(crate) fn active_tools(&self) -> u64 {
        let ready = |slot: &Slot| match slot {
            Slot::Ready(session) => session.calls.count() as u64,
            Slot::Reserved => 0,
        };
        self.slots().values().map(ready).sum()
    }

    /// How many names are taken.
    pub(crate) fn session_count(&self) -> usize {
        self.slots().len()
    }

    /// Takes names for sessions that are about to be made: all of them, or none.
    pub(crate) fn reserve(self: &Arc<Self>, ids: &[SessionId]) -> Result<Reservation> {
        self.admit()?;
        let mut slots = self.slots();
        let limit = self.config.max_sessions;
        if limit > 0 && slots.len() + ids.len() > limit {
            return Err(Error::new(
                ErrorCode::MaxSessionsReached,
                format!("there are {} sessions, and at most {limit} are allowed", slots.len()),
            )
            .with_hint("destroy some, or raise `max_sessions`"));
        }
        for (position, id) in ids.iter().enumerate() {
            if slots.contains_key(id) || ids[..position].contains(id) || self.saved_bases.has_volume(id) {
                return Err(Error::new(ErrorCode::SessionExists, format!("session `{id}` exists already"))
                    .with_field("session_id")
                    .with_hint("choose another id, or leave it out for a random one"));
            }
        }
        for id in ids {
            slots.insert(id.clone(), Slot::Reserved);
        }
        Ok(Reservation { inner: Arc::clone(self), ids: ids.to_vec() })
    }

    /// What went through the gateway since this host started, and what is open now.
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

    /// The session is gone; its name is free.
    pub(crate) fn release(&self, id: &SessionId) {
        // Before the name is free: whoever gets it next must not be opened by tokens of this one.
        self.tokens.forget_session(id);
        let mut slots = self.slots();
        // Together, so that nobody who sums them up finds less than before.
        if let Some(Slot::Ready(session)) = slots.remove(id) {
            self.metrics.keep_traffic(session.traffic.snapshot());
        }
    }
}

/// Names taken for sessions that are being made; given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    inner: Arc<Inner>,
    ids: Vec<SessionId>,
}

impl Reservation {
    /// The sessions exist now.
    pub(crate) fn keep(mut self) {
        let mut slots = self.inner.slots();
        for id in std::mem::take(&mut self.ids) {
            let session = Session::new(id.clone());
            slots.insert(id, Slot::Ready(session));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut slots = self.inner.slots();
        for id in &self.ids {
            slots.remove(id);
        }
    }
}

/// Waits for tool calls that are under way, and ends those that take too long.
fn drain(sessions: &[Arc<Session>], patience: Duration) {
    let drained = async || {
        for session in sessions {
            session.calls.drained().await;
        }
    };
    tokio::runtime::Handle::current().block_on(async {
        if tokio::time::timeout(patience, drained()).await.is_err() {
            for session in sessions {
                session.calls.cancel();
            }
            drained().await;
        }
    });
}
