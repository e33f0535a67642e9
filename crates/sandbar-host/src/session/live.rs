//! [`Session`]: the in-memory state of a session, beside its record.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, MutexExt as _, OwnerMap, Resources, Result, SessionId};
use sandbar_egress::TrafficCounters;
use sandbar_runtime::{Sandbox, SandboxSpec};
use sandbar_tools::calls::ToolCalls;
use sandbar_tree::{Draft, SessionTree, session_tree::WatchBudget};
use tokio_util::sync::CancellationToken;

use super::{
    activity::Activity,
    box_order::BoxOrder,
    files::{self, SharedDraft},
    ports::Ports,
    root::Root,
    watch::WatchSlot,
};
use crate::{
    admission::AdmissionLock,
    call_slots::CallSlots,
    engine::Engine,
    network::{NetworkPlan, Outlet, Site},
    process::{Processes, StopMode, StopReason},
    state::SessionRecord,
    worker::WalkLimits,
};

/// Watched directories of a session. Each takes one of the machine's inotify instances.
const MAX_WATCHES: usize = 64;

/// The in-memory state of a session. Its module documents the lock order.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) admission: Arc<AdmissionLock>,
    /// Limits the threads that calls hold.
    pub(crate) slots: Arc<CallSlots>,
    /// Serialises storage calls that change this volume.
    storage_order: Mutex<()>,
    /// Held while the box is frozen for a copy, so that no other verb thaws it.
    freezing_order: Mutex<()>,
    /// Held while the box is started, stopped or given another policy.
    pub(super) box_order: BoxOrder,
    /// Held while the tree is mounted.
    mount_order: Mutex<()>,
    /// Never held over work that blocks.
    live: Mutex<Live>,
    /// Time of the last use.
    pub(crate) activity: Arc<Activity>,
    /// Tool calls in progress.
    pub(crate) calls: ToolCalls,
    /// Cancels tree exports and imports when the session is destroyed or the host stops.
    pub(crate) streams: CancellationToken,
    /// Long-running processes.
    pub(crate) processes: Processes,
    /// Bytes and connections of its network.
    pub(crate) traffic: Arc<TrafficCounters>,
    pub(super) ports: Ports,
    /// Limits of its jobs in worker processes.
    pub(crate) walks: WalkLimits,
    /// Limits what its watches hold together.
    pub(super) watch_budget: Arc<WatchBudget>,
}

/// Resources of a session that are opened on first use.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) root: Option<Root>,
    pub(super) sandbox: Option<Arc<dyn Sandbox>>,
    /// The egress side of the sandbox's network, if it is open.
    pub(super) outlet: Option<Outlet>,
    /// Files being written.
    pub(super) drafts: Vec<Weak<Mutex<Option<Draft>>>>,
    /// Watched directories.
    pub(super) watches: Vec<Weak<WatchSlot>>,
}

impl Session {
    pub(crate) fn new(id: SessionId) -> Arc<Self> {
        let admission = AdmissionLock::new(id.clone());
        Arc::new(Self {
            slots: CallSlots::new(id.clone()),
            id,
            admission,
            storage_order: Mutex::default(),
            freezing_order: Mutex::default(),
            box_order: BoxOrder::default(),
            mount_order: Mutex::default(),
            live: Mutex::default(),
            activity: Activity::new(),
            calls: ToolCalls::default(),
            streams: CancellationToken::new(),
            processes: Processes::default(),
            traffic: Arc::default(),
            ports: Ports::default(),
            walks: WalkLimits::default(),
            watch_budget: Arc::default(),
        })
    }

    /// Locks the storage order of the volume.
    pub(crate) fn order_storage(&self) -> MutexGuard<'_, ()> {
        self.storage_order
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the freezing order of the box.
    pub(super) fn order_freezing(&self) -> MutexGuard<'_, ()> {
        self.freezing_order
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sandbox if it was started. It may have died.
    pub(super) fn live_sandbox(&self) -> Option<Arc<dyn Sandbox>> {
        self.live().sandbox.clone()
    }

    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mounted tree, and mounts it on first use.
    pub(super) fn root(&self, engine: &Engine) -> Result<Root> {
        let mounted = || self.live().root.clone();
        if let Some(root) = mounted() {
            return Ok(root);
        }
        let _order = self.mount_order.lock_unpoisoned();
        if let Some(root) = mounted() {
            return Ok(root);
        }
        let root = Root::mount(engine, &self.id)?;
        self.live().root = Some(root.clone());
        Ok(root)
    }

    /// Sets the tree that was mounted while the session was created.
    pub(super) fn adopt_root(&self, root: Root) {
        self.live().root = Some(root);
    }

    /// Opens the mounted tree for file access.
    pub(super) fn tree(&self, engine: &Engine) -> Result<SessionTree> {
        let root = self.root(engine)?;
        SessionTree::open(&root.path, root.owners)
    }

    /// Cancels tool calls and tree streams; returns whether there were any.
    pub(super) fn end_work(&self) -> bool {
        let streams = !self.streams.is_cancelled();
        self.streams.cancel();
        self.calls.cancel() || streams
    }

    /// Kills the box, so that operations that wait for it end; returns whether there was one.
    pub(super) fn end_box(&self) -> bool {
        let Some(sandbox) = self.live_sandbox() else {
            return false;
        };
        tracing::warn!(session = %self.id, "killing a sandbox whose operations did not end in time");
        if let Err(error) = sandbox.stop() {
            tracing::error!(session = %self.id, error = error.chain(), "could not stop a sandbox");
        }
        true
    }

    /// Registers a file being written, so that [`stop`](Self::stop) can discard it.
    pub(super) fn remember_draft(&self, draft: &SharedDraft) {
        let mut live = self.live();
        live.drafts.retain(|draft| draft.strong_count() > 0);
        live.drafts.push(Arc::downgrade(draft));
    }

    /// Registers a watch, so that [`stop`](Self::stop) can end it. `TooManyCalls` beyond
    /// [`MAX_WATCHES`].
    pub(super) fn remember_watch(&self, watch: &Arc<WatchSlot>) -> Result<()> {
        let mut live = self.live();
        live.watches.retain(|watch| watch.strong_count() > 0);
        if live.watches.len() >= MAX_WATCHES {
            return Err(Error::new(
                ErrorCode::TooManyCalls,
                format!(
                    "session `{}` has reached its limit of {MAX_WATCHES} watches",
                    self.id
                ),
            )
            .with_hint("end some of them"));
        }
        live.watches.push(Arc::downgrade(watch));
        Ok(())
    }

    /// Returns the open watches.
    pub(super) fn watches(&self) -> Vec<Arc<WatchSlot>> {
        self.live()
            .watches
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Returns the sandbox, and starts it on first use or after it died.
    pub(super) fn sandbox(
        &self,
        engine: &Engine,
        record: &SessionRecord,
    ) -> Result<Arc<dyn Sandbox>> {
        let root = self.root(engine)?;
        let alive = || self.live_sandbox().filter(|sandbox| sandbox.is_alive());
        if let Some(sandbox) = alive() {
            return Ok(sandbox);
        }
        let _order = self.box_order.lock(&self.id)?;
        if let Some(sandbox) = alive() {
            return Ok(sandbox);
        }
        if let Some(sandbox) = self.live_sandbox() {
            tracing::warn!(session = %self.id, "replacing a sandbox that has died");
            sandbox.stop()?;
        }
        self.forget_box();
        // Read under `box_order`, which `set_network` takes to change it. Checked against the
        // runtime again, since the session may have been created by a host with another one.
        let policy = engine.record(&self.id)?.network;
        engine
            .runtime
            .admit(&Resources::default(), policy.as_ref())?;
        let tree = || SessionTree::open(&root.path, root.owners.clone());
        let plan = NetworkPlan::new(engine, &self.id, policy.as_ref(), tree)?;
        let sandbox = engine.runtime.open_sandbox(&SandboxSpec {
            session: &self.id,
            root: &root.path,
            owners: root.owners.clone(),
            resources: &record.resources.clone().or(&engine.defaults.resources),
            default_memory: engine.defaults.memory,
            network: plan.network(),
            trust: plan.trust(),
            rights: record.root_rights,
            skip_pids: pids_before(record.created),
        })?;
        // Before the sandbox is returned, so that its first command finds the network open.
        let outlet = match plan.open(engine, &*sandbox, &self.site()) {
            Ok(outlet) => outlet,
            Err(error) => {
                if let Err(stop) = sandbox.stop() {
                    tracing::error!(session = %self.id, error = stop.chain(), "could not stop a sandbox without a network");
                }
                return Err(error);
            }
        };
        let mut live = self.live();
        (live.outlet, live.sandbox) = (outlet, Some(Arc::clone(&sandbox)));
        drop(live);
        Ok(sandbox)
    }

    /// Forgets a box that was stopped, and closes the egress side of its network; blocks until the
    /// tasks of that have ended. The caller holds `box_order`.
    fn forget_box(&self) {
        let mut live = self.live();
        live.sandbox = None;
        let outlet = live.outlet.take();
        drop(live);
        if let Some(outlet) = outlet {
            outlet.close();
        }
    }

    /// Stops the box alone. Half-written files and the list of exited processes are kept.
    pub(super) fn stop_box(&self) -> Result<()> {
        let _order = self.box_order.lock(&self.id)?;
        self.stop_box_in_order()
    }

    /// As [`stop_box`](Self::stop_box). The caller holds `box_order`.
    fn stop_box_in_order(&self) -> Result<()> {
        if let Some(sandbox) = self.live_sandbox() {
            sandbox.stop()?;
        }
        self.forget_box();
        Ok(())
    }

    pub(super) fn site(&self) -> Site {
        Site {
            session: self.id.clone(),
            traffic: Arc::clone(&self.traffic),
        }
    }

    /// Stops processes, watches and the sandbox, and discards half-written files. The tree stays
    /// mounted until the storage replaces, unmounts or deletes it. The caller holds the returned
    /// uid range until then, so that no other session gets it. After an error the sandbox is kept,
    /// and `stop` can be repeated.
    pub(crate) fn stop(&self, reason: StopReason) -> Result<Option<Arc<OwnerMap>>> {
        self.processes.stop(reason, StopMode::Kill);
        let order = self.box_order.lock(&self.id)?;
        let mut live = self.live();
        let drafts = std::mem::take(&mut live.drafts);
        let watches = std::mem::take(&mut live.watches);
        drop(live);
        for draft in drafts.into_iter().filter_map(|draft| draft.upgrade()) {
            files::lock(&draft).take();
        }
        for watch in watches.into_iter().filter_map(|watch| watch.upgrade()) {
            watch.end(reason);
        }
        self.stop_box_in_order()?;
        let root = self.live().root.take();
        drop(order);
        let owners = root.and_then(|root| root.owners);
        self.processes.join();
        // For processes launched later: the clock was stopped if the session was paused.
        self.processes.clock.set_paused(false);
        Ok(owners)
    }
}

/// Assumed average interval between two process starts of a session, at least.
const MILLISECONDS_PER_PID: u128 = 5;

/// Estimates how many process ids earlier boxes of the session have used, so that a new box does
/// not reuse them. Derived from the age of the session, which needs no record per process; zero for
/// a new session.
fn pids_before(created: Timestamp) -> u64 {
    let age = Timestamp::now().duration_since(created).unsigned_abs();
    u64::try_from(age.as_millis() / MILLISECONDS_PER_PID).unwrap_or_default()
}
