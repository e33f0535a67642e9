//! The cgroups of one session: its limits, a leaf group for init and one for each command.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sandbar_core::{MutexExt as _, Resources};

use super::{
    command_group::CommandGroup,
    controllers::{Controller, Hierarchy},
    group::Group,
    limits::{clear_limit, set_limit},
    stats::RemovedCounts,
    v1_group::V1Group,
};
use crate::SandboxStats;

/// Limits how many idle command groups are kept for reuse.
const MAX_IDLE_COMMANDS: usize = 8;

/// Place of a session's memory limit in the v1 hierarchy. In v2 it is always the whole session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MemoryScope {
    /// The limit is that of the session's group, which init and its commands are in. Starting a
    /// command costs nothing.
    #[default]
    Session,
    /// The limit is that of a group below the session's, without init. Every command enters a group
    /// of its own there, so that OOM kills are counted per command and never hit init. Entering a
    /// v1 group waits for an RCU grace period, ten milliseconds.
    Commands,
}

/// Name of the v1 memory group of [`MemoryScope::Commands`].
const COMMANDS_GROUP: &str = "commands";

/// Groups of one session.
#[derive(Debug)]
pub(crate) struct SessionGroups {
    pub(super) v2: Group,
    /// Leaf group of init, below `v2`.
    pub(super) init: Group,
    v2_controllers: Vec<Controller>,
    v1: Vec<V1Group>,
    /// Host uid that may clone processes into these groups.
    owner: Option<u32>,
    limits: Resources,
    memory_scope: MemoryScope,
    /// Group of [`MemoryScope::Commands`], below the session's v1 memory group.
    commands_memory: OnceLock<Group>,
    next: AtomicU64,
    /// Groups of commands that may still have processes, and idle ones.
    commands: Mutex<Vec<Arc<CommandGroup>>>,
    pub(super) removed: RemovedCounts,
    /// Counters when this session began. The kernel does not reset them between sessions.
    pub(super) before: SandboxStats,
    is_frozen: AtomicBool,
}

impl SessionGroups {
    pub(super) fn create(
        name: &str,
        v2: Group,
        v2_controllers: Vec<Controller>,
        v1: &[(Controller, Arc<Group>)],
    ) -> io::Result<Self> {
        let init = v2.child("init")?;
        let groups = Self {
            v2,
            init,
            v2_controllers,
            v1: v1
                .iter()
                .map(|(controller, host)| V1Group::new(*controller, host, name))
                .collect(),
            owner: None,
            limits: Resources::default(),
            memory_scope: MemoryScope::default(),
            commands_memory: OnceLock::new(),
            next: AtomicU64::new(1),
            commands: Mutex::default(),
            removed: RemovedCounts::default(),
            before: SandboxStats::default(),
            is_frozen: AtomicBool::new(false),
        };
        // The CPU group also without a limit: the kernel shares CPU time equally between the groups
        // of sessions, however many processes each has.
        for v1 in &groups.v1 {
            v1.get_or_create()
                .inspect_err(|_| drop(groups.kill_and_remove()))?;
        }
        Ok(groups)
    }

    /// Sets the limits of the whole session. The process limit is raised by one for init.
    pub(crate) fn limit(&mut self, limits: &Resources, scope: MemoryScope) -> io::Result<()> {
        self.memory_scope = scope;
        self.limits = limits.clone();
        let with_init = Resources {
            pids: limits.pids.map(|pids| pids.saturating_add(1)),
            ..limits.clone()
        };
        for controller in Controller::ALL {
            if let Some((group, hierarchy)) = self.controller_group(controller)? {
                set_limit(group, controller, hierarchy, &with_init)?;
            }
        }
        Ok(())
    }

    /// Returns the limits of the session that the kernel enforces.
    pub(crate) fn enforced(&self) -> Resources {
        let has = |wanted| {
            self.v2_controllers.contains(&wanted)
                || self.v1.iter().any(|v1| v1.controller == wanted)
        };
        Resources {
            cpus: self.limits.cpus.filter(|_| has(Controller::Cpu)),
            memory: self.limits.memory.filter(|_| has(Controller::Memory)),
            pids: self.limits.pids.filter(|_| has(Controller::Pids)),
            ..Resources::default()
        }
    }

    /// Lets `owner` clone processes into the session's v2 groups, including command groups kept
    /// from an earlier session.
    pub(crate) fn delegate(&mut self, owner: u32) -> io::Result<()> {
        self.v2.delegate(owner)?;
        if self.owner != Some(owner) {
            self.commands()
                .iter()
                .try_for_each(|group| group.v2.delegate(owner))?;
        }
        self.owner = Some(owner);
        Ok(())
    }

    /// Returns the session's group for a controller: the one that has the limit. Creates a v1 group
    /// if needed.
    pub(super) fn controller_group(
        &self,
        controller: Controller,
    ) -> io::Result<Option<(&Group, Hierarchy)>> {
        if self.v2_controllers.contains(&controller) {
            return Ok(Some((&self.v2, Hierarchy::V2)));
        }
        let Some(v1) = self.v1.iter().find(|v1| v1.controller == controller) else {
            return Ok(None);
        };
        let group = v1.get_or_create()?;
        if controller != Controller::Memory || !self.limits_commands_memory() {
            return Ok(Some((group, Hierarchy::V1)));
        }
        if self.commands_memory.get().is_none() {
            let made = group.child(COMMANDS_GROUP)?;
            self.commands_memory.get_or_init(|| made);
        }
        Ok(self
            .commands_memory
            .get()
            .map(|group| (group, Hierarchy::V1)))
    }

    /// Returns whether every command needs a memory group of its own.
    fn limits_commands_memory(&self) -> bool {
        self.limits.memory.is_some() && self.memory_scope == MemoryScope::Commands
    }

    /// Returns the directory of the session's v2 group.
    pub(crate) fn directory(&self) -> &Path {
        self.v2.directory()
    }

    /// Returns the v2 group init is cloned into, with its controllers disabled for children: v2
    /// forbids processes in a group that has controllers enabled for child groups. Init moves to
    /// [its leaf](Self::init_leaf_procs) before [`enable_controllers`](Self::enable_controllers).
    pub(crate) fn start_group(&self) -> io::Result<BorrowedFd<'_>> {
        for controller in &self.v2_controllers {
            self.v2
                .write("cgroup.subtree_control", format!("-{}", controller.name()))?;
        }
        Ok(self.v2.as_fd())
    }

    /// Returns whether init must move to a leaf group: only if v2 has controllers here.
    pub(crate) fn has_leaf_groups(&self) -> bool {
        !self.v2_controllers.is_empty()
    }

    /// Opens `cgroup.procs` of init's leaf group. `None` if init stays in the session's group.
    pub(crate) fn init_leaf_procs(&self) -> io::Result<Option<OwnedFd>> {
        if self.has_leaf_groups() {
            self.init.open_procs().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Opens `cgroup.procs` of the leaf group for the processes of a gVisor container. The host
    /// starts no commands in groups beside it.
    pub(crate) fn guest_procs(&self) -> io::Result<OwnedFd> {
        self.init.open_procs()
    }

    /// Enables the v2 controllers for command groups. Init must be in its leaf group by now.
    pub(crate) fn enable_controllers(&self) -> io::Result<()> {
        self.v2_controllers.iter().try_for_each(|controller| {
            self.v2
                .write("cgroup.subtree_control", format!("+{}", controller.name()))
        })
    }

    /// Opens `cgroup.procs` of all v1 groups, which init enters before the limits are known.
    pub(crate) fn v1_procs(&self) -> io::Result<Vec<OwnedFd>> {
        self.v1
            .iter()
            .filter_map(V1Group::get)
            .map(Group::open_procs)
            .collect()
    }

    /// Returns a group for a command with these limits: an idle one if possible, because creating
    /// groups costs more than all else the host does to start a command.
    pub(crate) fn command(&self, limits: &Resources) -> io::Result<Arc<CommandGroup>> {
        let own = Resources {
            cpus: limits.cpus.filter(|_| limits.cpus != self.limits.cpus),
            memory: limits
                .memory
                .filter(|_| limits.memory != self.limits.memory),
            pids: limits.pids.filter(|_| limits.pids != self.limits.pids),
            ..Resources::default()
        };
        let is_plain = own == Resources::default();
        let mut commands = self.commands();
        if is_plain
            && let Some(idle) = commands
                .iter()
                .find(|group| self.may_reuse(group) && group.is_idle())
        {
            idle.reset_counters();
            return Ok(Arc::clone(idle));
        }
        let group = Arc::new(self.create_command(&own, is_plain)?);
        commands.push(Arc::clone(&group));
        Ok(group)
    }

    /// Returns whether a command without limits of its own may use this group. With
    /// [`MemoryScope::Commands`], only a group in the memory controller puts the command under the
    /// limit, because init is outside of it; otherwise such a group would be entered for nothing.
    fn may_reuse(&self, group: &CommandGroup) -> bool {
        group.is_reusable()
            && (group.memory_in_v2 || self.limits_commands_memory() == group.has_memory_group())
    }

    /// Removes idle command groups, except a few that are kept for reuse.
    pub(crate) fn remove_idle_groups(&self) {
        let mut commands = self.commands();
        let mut kept = 0;
        commands.retain(|group| {
            if !group.is_idle() {
                return true;
            }
            if group.is_reusable() && kept < MAX_IDLE_COMMANDS {
                kept += 1;
                return true;
            }
            let (oom_kills, refused_forks) = (group.total_oom_kills(), group.refused_forks());
            let removed = group.remove();
            if removed {
                self.removed.add(oom_kills, refused_forks);
            }
            !removed
        });
    }

    pub(super) fn commands(&self) -> MutexGuard<'_, Vec<Arc<CommandGroup>>> {
        self.commands.lock_unpoisoned()
    }

    fn create_command(&self, own: &Resources, is_plain: bool) -> io::Result<CommandGroup> {
        let name = format!("exec-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let v2 = self.v2.child(&name)?;
        if let Some(owner) = self.owner {
            v2.delegate(owner)?;
        }
        let mut v1 = Vec::new();
        for controller in Controller::ALL {
            let is_needed = match controller {
                Controller::Cpu => own.cpus.is_some(),
                Controller::Pids => own.pids.is_some(),
                Controller::Memory => own.memory.is_some() || self.limits_commands_memory(),
            };
            if !is_needed && !self.v2_controllers.contains(&controller) {
                continue;
            }
            match self.controller_group(controller)? {
                Some((_, Hierarchy::V2)) => set_limit(&v2, controller, Hierarchy::V2, own)?,
                Some((session, Hierarchy::V1)) => {
                    let group = session.child(&name)?;
                    set_limit(&group, controller, Hierarchy::V1, own)?;
                    v1.push((controller, group.open_procs()?, group));
                }
                None => {}
            }
        }
        let shared_oom = match self.controller_group(Controller::Memory)? {
            Some((session, Hierarchy::V1))
                if !v1.iter().any(|(kind, ..)| *kind == Controller::Memory) =>
            {
                session.open_to_read("memory.oom_control").ok()
            }
            _ => None,
        };
        let group = CommandGroup {
            v2,
            v1,
            shared_oom,
            shared_oom_before: AtomicU64::new(0),
            memory_in_v2: self.v2_controllers.contains(&Controller::Memory),
            pids_in_v2: self.v2_controllers.contains(&Controller::Pids),
            is_plain,
            oom_kills_before: AtomicU64::new(0),
        };
        group.reset_counters();
        Ok(group)
    }

    pub(crate) fn freeze(&self) -> io::Result<()> {
        self.is_frozen.store(true, Ordering::SeqCst);
        self.v2.freeze()
    }

    pub(crate) fn thaw(&self) -> io::Result<()> {
        self.v2.thaw()?;
        self.is_frozen.store(false, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::SeqCst)
    }

    /// Waits until the session has no processes. Kills those that do not exit soon.
    pub(crate) fn wait_until_empty(&self) -> io::Result<()> {
        self.v2.wait_until_empty()
    }

    /// Clears limits and counters, for another session.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        if self.v2.was_killed() {
            return Err(io::Error::other("killed cgroups cannot be reused"));
        }
        if self.is_frozen() {
            self.thaw()?;
        }
        self.remove_idle_groups();
        self.limits = Resources::default();
        self.memory_scope = MemoryScope::default();
        if let Some(group) = self.commands_memory.get() {
            clear_limit(group, Controller::Memory, Hierarchy::V1)?;
        }
        for controller in Controller::ALL {
            let exists = self.v2_controllers.contains(&controller)
                || self
                    .v1
                    .iter()
                    .any(|v1| v1.controller == controller && v1.get().is_some());
            if exists && let Some((group, hierarchy)) = self.controller_group(controller)? {
                clear_limit(group, controller, hierarchy)?;
            }
        }
        self.before = self.counters();
        Ok(())
    }

    /// Kills all processes of the session and removes its groups.
    pub(crate) fn kill_and_remove(&self) -> io::Result<()> {
        self.v2.kill_and_remove()?;
        self.v1
            .iter()
            .filter_map(V1Group::get)
            .try_for_each(Group::remove)
    }

    /// Kills all processes without waiting. The groups cannot be reused afterwards.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.v2.kill()
    }
}

impl Drop for SessionGroups {
    fn drop(&mut self) {
        if let Err(error) = self.kill_and_remove() {
            tracing::warn!(%error, "could not kill the processes of a session");
        }
    }
}
