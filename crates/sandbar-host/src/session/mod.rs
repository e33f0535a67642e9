//! One session, and a file for each thing that can be done with it.

mod activity;
mod attach;
mod bases;
mod create;
mod destroy;
mod diff;
mod exec;
mod expiry;
mod files;
mod fork;
mod furnish;
mod hibernate;
mod list;
mod network;
mod notes;
mod pause;
mod ports;
mod processes;
mod rights;
mod rollback;
mod root;
mod save_base;
mod snapshot;
mod tools;
mod trees;
mod users;
mod watch;
mod watch_pace;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, OwnerMap, Resources, Result, SessionId, SessionState};
use sandbar_net::TrafficCounters;
use sandbar_runtime::{Sandbox, SandboxSpec};
use sandbar_storage::{Draft, SessionTree};
use tokio_util::sync::CancellationToken;

pub(crate) use activity::Activity;
pub use attach::{AttachedStdin, Attachment};
pub use files::FileWriter;
use files::SharedDraft;
#[cfg(any(fuzzing, test))]
pub use list::page_token;
use ports::Ports;
pub use ports::{PortAccess, PortConnection};
pub use processes::LaunchedProcess;
use root::Root;
use sandbar_tools::calls::ToolCalls;
pub use tools::ToolExecution;
pub use trees::{TreeReader, TreeWriter};
pub use watch::DirWatcher;
use watch::WatchSlot;
pub use watch_pace::WatchPace;

use crate::{
    gate::{Gate, not_found},
    host::Inner,
    network::{NetworkPlan, Outlet, Site},
    process::{Manner, Processes, StopReason},
    state::SessionRecord,
};

/// What the host keeps of a session beside its record.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) gate: Arc<Gate>,
    /// Orders calls to the storage that change this volume.
    storage_order: Mutex<()>,
    /// Held while the box is frozen for a moment, so that nobody else thaws it meanwhile.
    freezing_order: Mutex<()>,
    live: Mutex<Live>,
    /// When it was last used.
    pub(crate) activity: Arc<Activity>,
    /// Tool calls under way.
    pub(crate) calls: ToolCalls,
    /// Cancelled when trees on their way in or out must not hold up the end of the session.
    pub(crate) streams: CancellationToken,
    /// Long-running processes.
    pub(crate) processes: Processes,
    /// What went through its network.
    pub(crate) traffic: Arc<TrafficCounters>,
    ports: Ports,
}

/// What exists only while the host runs.
#[derive(Debug, Default)]
struct Live {
    root: Option<Root>,
    sandbox: Option<Arc<dyn Sandbox>>,
    /// The open network of the sandbox.
    outlet: Option<Outlet>,
    /// Files being written.
    drafts: Vec<Weak<Mutex<Option<Draft>>>>,
    /// Directories that are watched.
    watches: Vec<Weak<WatchSlot>>,
}

impl Live {
    /// Ends what serves the network of the sandbox.
    fn close_outlet(&mut self) {
        if let Some(outlet) = self.outlet.take() {
            outlet.close();
        }
    }
}

impl Session {
    pub(crate) fn new(id: SessionId) -> Arc<Self> {
        let gate = Gate::new(id.clone());
        Arc::new(Self {
            id,
            gate,
            storage_order: Mutex::default(),
            freezing_order: Mutex::default(),
            live: Mutex::default(),
            activity: Activity::new(),
            calls: ToolCalls::default(),
            streams: CancellationToken::new(),
            processes: Processes::default(),
            traffic: Arc::default(),
            ports: Ports::default(),
        })
    }

    /// Waits for its turn to change the volume.
    pub(crate) fn order_storage(&self) -> MutexGuard<'_, ()> {
        self.storage_order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its turn to freeze the box for a moment.
    fn order_freezing(&self) -> MutexGuard<'_, ()> {
        self.freezing_order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sandbox, if there is one. It may have died.
    fn live_sandbox(&self) -> Option<Arc<dyn Sandbox>> {
        self.live().sandbox.clone()
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mounted tree, mounted when first needed.
    fn root(&self, inner: &Inner) -> Result<Root> {
        let mut live = self.live();
        if let Some(root) = &live.root {
            return Ok(root.clone());
        }
        let root = Root::mount(inner, &self.id)?;
        live.root = Some(root.clone());
        Ok(root)
    }

    /// Takes a tree that was mounted before there was a session.
    fn adopt_root(&self, root: Root) {
        self.live().root = Some(root);
    }

    /// The mounted tree, to reach files in.
    fn tree(&self, inner: &Inner) -> Result<SessionTree> {
        let root = self.root(inner)?;
        SessionTree::open(&root.path, root.owners)
    }

    /// Ends tool calls and streams that are under way; says whether there was anything to end.
    fn end_work(&self) -> bool {
        let streams = !self.streams.is_cancelled();
        self.streams.cancel();
        self.calls.cancel() || streams
    }

    /// Ends everything in the box, for operations that wait for something in it; says whether there was a box.
    fn end_box(&self) -> bool {
        let Some(sandbox) = self.live_sandbox() else { return false };
        tracing::warn!(session = %self.id, "operations did not end in time; the sandbox is killed");
        if let Err(error) = sandbox.stop() {
            tracing::error!(session = %self.id, error = error.chain(), "could not stop a sandbox");
        }
        true
    }

    /// Keeps an eye on a file that is being written.
    fn remember_draft(&self, draft: &SharedDraft) {
        let mut live = self.live();
        live.drafts.retain(|draft| draft.strong_count() > 0);
        live.drafts.push(Arc::downgrade(draft));
    }

    /// Keeps an eye on a directory that is watched.
    fn remember_watch(&self, watch: &Arc<WatchSlot>) {
        let mut live = self.live();
        live.watches.retain(|watch| watch.strong_count() > 0);
        live.watches.push(Arc::downgrade(watch));
    }

    /// The watches that are open.
    fn watches(&self) -> Vec<Arc<WatchSlot>> {
        self.live().watches.iter().filter_map(Weak::upgrade).collect()
    }

    /// The sandbox commands run in, started when first needed.
    fn sandbox(&self, inner: &Inner, record: &SessionRecord) -> Result<Arc<dyn Sandbox>> {
        let root = self.root(inner)?;
        let mut live = self.live();
        if let Some(sandbox) = &live.sandbox {
            if sandbox.is_alive() {
                return Ok(Arc::clone(sandbox));
            }
            tracing::warn!(session = %self.id, "the sandbox had died; it is replaced");
            sandbox.stop()?;
        }
        live.close_outlet();
        live.sandbox = None;
        // Read while nobody can change it, and held to what this runtime can keep: the session may be older than the host.
        let policy = inner.record(&self.id)?.network;
        inner.runtime.admit(&Resources::default(), policy.as_ref())?;
        let tree = || SessionTree::open(&root.path, root.owners.clone());
        let plan = NetworkPlan::new(inner, &self.id, policy.as_ref(), tree)?;
        let sandbox = inner.runtime.open_sandbox(&SandboxSpec {
            session: &self.id,
            root: &root.path,
            owners: root.owners.clone(),
            resources: &record.resources.clone().or(&inner.config.default_resources),
            network: plan.network(),
            trust: plan.trust(),
            rights: record.root_rights,
            skip_pids: pids_before(record.created),
        })?;
        // Before anybody has the sandbox, so that its first command finds the network it is to have.
        live.outlet = match plan.open(inner, &*sandbox, &self.site()) {
            Ok(outlet) => outlet,
            Err(error) => {
                if let Err(stop) = sandbox.stop() {
                    tracing::error!(session = %self.id, error = stop.chain(), "could not stop a sandbox without a network");
                }
                return Err(error);
            }
        };
        live.sandbox = Some(Arc::clone(&sandbox));
        Ok(sandbox)
    }

    /// Whose network it is.
    fn site(&self) -> Site {
        Site { session: self.id.clone(), traffic: Arc::clone(&self.traffic) }
    }

    /// Ends what runs here and gives up files that are half written. The storage takes the tree away when it replaces or
    /// deletes it, or when the host stops; what is returned is kept until then, so that nobody else gets the same
    /// owners. When something cannot be ended, the sandbox stays, and stopping can be tried again.
    pub(crate) fn stop(&self, why: StopReason) -> Result<Option<Arc<OwnerMap>>> {
        self.processes.stop(why, Manner::AtOnce);
        let mut live = self.live();
        for draft in live.drafts.drain(..).filter_map(|draft| draft.upgrade()) {
            files::lock(&draft).take();
        }
        for watch in live.watches.drain(..).filter_map(|watch| watch.upgrade()) {
            watch.end(why);
        }
        if let Some(sandbox) = &live.sandbox {
            sandbox.stop()?;
        }
        live.sandbox = None;
        live.close_outlet();
        let owners = live.root.take().and_then(|root| root.owners);
        drop(live);
        self.processes.join();
        // Whatever is launched here later does not begin with a clock that stands still.
        self.processes.clock.set_paused(false);
        Ok(owners)
    }
}

impl Inner {
    /// The record of a session.
    fn record(&self, id: &SessionId) -> Result<SessionRecord> {
        self.state.session(id)?.ok_or_else(|| not_found(id))
    }

    /// The record of a session whose clock runs: commands may start, files may change.
    fn active(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.present(id)?;
        if record.state == SessionState::Paused {
            return Err(Error::new(ErrorCode::SessionPaused, format!("session `{id}` is paused"))
                .with_hint(format!("let it go on with `sandbar resume {id}`")));
        }
        Ok(record)
    }

    /// The record of a session whose volume is here: it may be looked at, snapshotted, rolled back and forked.
    fn present(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.record(id)?;
        match record.state {
            SessionState::Active | SessionState::Paused => Ok(record),
            SessionState::Hibernated => {
                Err(Error::new(ErrorCode::SessionPaused, format!("session `{id}` is hibernated"))
                    .with_hint(format!("bring it back with `sandbar wake {id}`")))
            }
            SessionState::Failed => {
                Err(Error::new(ErrorCode::InvalidState, format!("session `{id}` has failed: its volume is gone"))
                    .with_hint(format!("destroy it with `sandbar rm {id}`")))
            }
            SessionState::Destroying => {
                Err(Error::new(ErrorCode::SessionDestroying, format!("session `{id}` is being destroyed"))
                    .with_hint("make a new one"))
            }
            SessionState::Creating => {
                Err(Error::new(ErrorCode::InvalidState, format!("session `{id}` is still being created")))
            }
        }
    }
}

/// A session starts fewer processes than one in so many milliseconds, on average.
const MILLISECONDS_PER_PID: u128 = 5;

/// Process ids an earlier box of the session may have given out. By the age of the session, so that nothing has to be
/// written down for every process: a box that begins with the session begins with the first id.
fn pids_before(created: Timestamp) -> u64 {
    let age = Timestamp::now().duration_since(created).unsigned_abs();
    u64::try_from(age.as_millis() / MILLISECONDS_PER_PID).unwrap_or_default()
}
