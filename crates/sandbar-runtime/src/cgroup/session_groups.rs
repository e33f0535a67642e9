//! The groups of one session: limits of all of it, and a group for each command.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use sandbar_core::{ByteCount, Resources};

use super::{controllers::Controller, group::Group};
use crate::SandboxStats;

/// Length of the period CPU time is counted in, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// Groups of commands kept for commands to come.
const SPARE: usize = 8;

#[derive(Debug)]
pub(crate) struct SessionGroups {
    unified: Group,
    init: Group,
    inside: Vec<Controller>,
    beside: Vec<Beside>,
    /// The owner commands are started by.
    owner: Option<u32>,
    limits: Resources,
    next: AtomicU64,
    /// Those of commands that may still have something running, and those that wait for the next command.
    commands: Mutex<Vec<Arc<CommandGroup>>>,
    /// What groups that were removed have counted.
    ended: Counts,
    /// What earlier sessions in these groups used, which the kernel goes on counting.
    before: SandboxStats,
    is_frozen: AtomicBool,
}

/// What the kernel counts for the group of a command alone.
#[derive(Debug, Default)]
struct Counts {
    oom_kills: AtomicU64,
    refused_forks: AtomicU64,
}

impl SessionGroups {
    pub(super) fn make(
        name: &str,
        unified: Group,
        inside: Vec<Controller>,
        beside: &[(Controller, Arc<Group>)],
    ) -> io::Result<Self> {
        let init = unified.child("init")?;
        let groups = Self {
            unified,
            init,
            inside,
            beside: beside.iter().map(|(controller, host)| Beside::new(*controller, host, name)).collect(),
            owner: None,
            limits: Resources::default(),
            next: AtomicU64::new(1),
            commands: Mutex::default(),
            ended: Counts::default(),
            before: SandboxStats::default(),
            is_frozen: AtomicBool::new(false),
        };
        // CPU time is counted by the kernel anyway; its group is made when somebody asks for a limit.
        for beside in groups.beside.iter().filter(|beside| beside.controller != Controller::Cpu) {
            beside.group().inspect_err(|_| drop(groups.end()))?;
        }
        Ok(groups)
    }

    /// Sets what everything in the session may use together. Init is one process more than was asked for.
    pub(crate) fn limit(&mut self, limits: &Resources) -> io::Result<()> {
        let with_init = Resources { pids: limits.pids.map(|pids| pids.saturating_add(1)), ..limits.clone() };
        for controller in Controller::ALL {
            // Asking for the place of CPU time makes a group, and every group is one more to enter.
            let is_wanted = controller != Controller::Cpu || limits.cpus.is_some();
            if is_wanted && let Some((group, two)) = self.place(controller)? {
                set_limit(group, controller, two, &with_init)?;
            }
        }
        self.limits = limits.clone();
        Ok(())
    }

    /// Lets this owner start processes in the session's groups, those of an earlier session's commands too.
    pub(crate) fn delegate(&mut self, owner: u32) -> io::Result<()> {
        self.unified.delegate(owner)?;
        if self.owner != Some(owner) {
            self.commands().iter().try_for_each(|group| group.unified.delegate(owner))?;
        }
        self.owner = Some(owner);
        Ok(())
    }

    /// The group of a controller, and whether it is the unified one.
    fn place(&self, controller: Controller) -> io::Result<Option<(&Group, bool)>> {
        if self.inside.contains(&controller) {
            return Ok(Some((&self.unified, true)));
        }
        let beside = self.beside.iter().find(|beside| beside.controller == controller);
        beside.map(|beside| Ok((beside.group()?, false))).transpose()
    }

    /// Where all of it is.
    pub(crate) fn directory(&self) -> &Path {
        self.unified.directory()
    }

    /// Where init is started. It must go to its [`room`](Self::room) before commands come: a group with controllers has
    /// either processes or groups in it.
    pub(crate) fn entrance(&self) -> io::Result<BorrowedFd<'_>> {
        for controller in &self.inside {
            self.unified.write("cgroup.subtree_control", format!("-{}", controller.name()))?;
        }
        Ok(self.unified.as_fd())
    }

    /// Whether init lives in a group of its own: only where groups have controllers.
    pub(crate) fn has_rooms(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Where init lives, when not where it is started.
    pub(crate) fn room(&self) -> io::Result<Option<OwnedFd>> {
        if self.has_rooms() { self.init.door().map(Some) } else { Ok(None) }
    }

    /// Where processes go that bring a kernel of their own: to them the host starts no commands beside init.
    pub(crate) fn guest_door(&self) -> io::Result<OwnedFd> {
        self.init.door()
    }

    /// Init is in its room.
    pub(crate) fn open_for_commands(&self) -> io::Result<()> {
        self.inside
            .iter()
            .try_for_each(|controller| self.unified.write("cgroup.subtree_control", format!("+{}", controller.name())))
    }

    /// What a process that shares every limit writes itself into beside that.
    pub(crate) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        self.doors_of(|_| true)
    }

    fn doors_of(&self, wanted: impl Fn(Controller) -> bool) -> io::Result<Vec<OwnedFd>> {
        let wanted = self.beside.iter().filter(|beside| wanted(beside.controller));
        wanted.filter_map(|beside| beside.made.get()).map(Group::door).collect()
    }

    /// What init writes itself into beside that, whatever the limits will be.
    pub(crate) fn early_doors(&self) -> io::Result<Vec<OwnedFd>> {
        self.doors_of(|controller| controller == Controller::Pids)
    }

    /// What init writes itself into when the limits are set. Where memory is limited it stays outside: memory that is in
    /// no process, as files in a tmpfs are, would otherwise be its end as often as that of the command which filled it.
    /// Commands go into groups of their own then.
    pub(crate) fn late_doors(&self) -> io::Result<Vec<OwnedFd>> {
        self.doors_of(|controller| match controller {
            Controller::Pids => false,
            Controller::Memory => self.limits.memory.is_none(),
            Controller::Cpu => true,
        })
    }

    /// A group for a command with these limits: one that has become free, or a new one. Making groups costs more than the
    /// rest of what the host does to start a command.
    pub(crate) fn command(&self, limits: &Resources) -> io::Result<Arc<CommandGroup>> {
        let own = Resources {
            cpus: limits.cpus.filter(|_| limits.cpus != self.limits.cpus),
            memory: limits.memory.filter(|_| limits.memory != self.limits.memory),
            pids: limits.pids.filter(|_| limits.pids != self.limits.pids),
            ..Resources::default()
        };
        let is_plain = own == Resources::default();
        let mut commands = self.commands();
        if is_plain && let Some(free) = commands.iter().find(|group| self.suits(group) && is_free(group)) {
            free.begin();
            return Ok(Arc::clone(free));
        }
        let group = Arc::new(self.make_command(&own, is_plain)?);
        commands.push(Arc::clone(&group));
        Ok(group)
    }

    /// Whether a command without limits of its own may have it. Where memory is limited, init is outside of the limit and
    /// only a group that counts memory puts the command under it; one from a session without a limit does not.
    fn suits(&self, group: &CommandGroup) -> bool {
        group.is_reusable() && (self.limits.memory.is_none() || group.counts_memory())
    }

    /// Removes groups that have become free, but for a few.
    fn tidy(&self, spare: usize) {
        let mut commands = self.commands();
        let mut kept = 0;
        commands.retain(|group| {
            if !is_free(group) {
                return true;
            }
            if group.is_reusable() && kept < spare {
                kept += 1;
                return true;
            }
            let (oom_kills, refused_forks) = (group.oom_kills_ever(), group.refused_forks());
            let removed = group.remove();
            if removed {
                self.ended.oom_kills.fetch_add(oom_kills, Ordering::Relaxed);
                self.ended.refused_forks.fetch_add(refused_forks, Ordering::Relaxed);
            }
            !removed
        });
    }

    /// Removes groups of commands that have ended, when there are many.
    pub(crate) fn thin_out(&self) {
        self.tidy(SPARE);
    }

    fn commands(&self) -> MutexGuard<'_, Vec<Arc<CommandGroup>>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_command(&self, own: &Resources, is_plain: bool) -> io::Result<CommandGroup> {
        let name = format!("exec-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let unified = self.unified.child(&name)?;
        if let Some(owner) = self.owner {
            unified.delegate(owner)?;
        }
        let mut beside = Vec::new();
        for controller in Controller::ALL {
            let limited = match controller {
                Controller::Cpu => own.cpus.is_some(),
                Controller::Pids => own.pids.is_some(),
                // Counted for each command, so that it can be told whose processes the kernel killed.
                Controller::Memory => own.memory.is_some() || self.limits.memory.is_some(),
            };
            if !limited && !self.inside.contains(&controller) {
                continue;
            }
            match self.place(controller)? {
                Some((_, true)) => set_limit(&unified, controller, true, own)?,
                Some((session, false)) => {
                    let group = session.child(&name)?;
                    set_limit(&group, controller, false, own)?;
                    beside.push((controller, group.door()?, group));
                }
                None => {}
            }
        }
        let memory_inside = self.inside.contains(&Controller::Memory);
        let pids_inside = self.inside.contains(&Controller::Pids);
        Ok(CommandGroup { unified, beside, memory_inside, pids_inside, is_plain, oom_kills_before: AtomicU64::new(0) })
    }

    pub(crate) fn freeze(&self) -> io::Result<()> {
        self.is_frozen.store(true, Ordering::SeqCst);
        self.unified.freeze()
    }

    pub(crate) fn thaw(&self) -> io::Result<()> {
        self.unified.thaw()?;
        self.is_frozen.store(false, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::SeqCst)
    }

    /// What the session uses and has used.
    pub(crate) fn stats(&self) -> SandboxStats {
        let (all, before) = (self.counters(), &self.before);
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        SandboxStats {
            cpu_time: all.cpu_time.map(|time| time.saturating_sub(before.cpu_time.unwrap_or_default())),
            refused_forks: since(all.refused_forks, before.refused_forks),
            oom_kills: since(all.oom_kills, before.oom_kills),
            ..all
        }
    }

    /// Waits until everything in the session has ended, and ends what does not by itself.
    pub(crate) fn empty(&self) -> io::Result<()> {
        self.unified.empty()
    }

    /// As new, for another session.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        if self.unified.was_killed() {
            return Err(io::Error::other("its groups were killed"));
        }
        if self.is_frozen() {
            self.thaw()?;
        }
        self.tidy(SPARE);
        self.limits = Resources::default();
        for controller in Controller::ALL {
            let made = self.inside.contains(&controller)
                || self.beside.iter().any(|beside| beside.controller == controller && beside.made.get().is_some());
            if made && let Some((group, unified)) = self.place(controller)? {
                lift_limit(group, controller, unified)?;
            }
        }
        self.before = self.counters();
        Ok(())
    }

    fn counters(&self) -> SandboxStats {
        let memory = |one: &str, two: &str| {
            let (group, unified) = self.place(Controller::Memory).ok()??;
            group.number(if unified { two } else { one }).map(ByteCount)
        };
        let pids = self.place(Controller::Pids).ok().flatten().map(|(group, _)| group);
        SandboxStats {
            cpu_time: self.unified.keyed_number("cpu.stat", "usage_usec").map(Duration::from_micros),
            memory: memory("memory.usage_in_bytes", "memory.current"),
            memory_peak: memory("memory.max_usage_in_bytes", "memory.peak"),
            // Init is not the session's.
            processes: pids.and_then(|group| group.number("pids.current")).map(|count| count.saturating_sub(1)),
            refused_forks: pids.and_then(|group| group.keyed_number("pids.events", "max")).map(|own| {
                let living: u64 = self.commands().iter().map(|group| group.refused_forks()).sum();
                own + living + self.ended.refused_forks.load(Ordering::Relaxed)
            }),
            oom_kills: self.place(Controller::Memory).ok().flatten().map(|_| {
                let living: u64 = self.commands().iter().map(|group| group.oom_kills_ever()).sum();
                living + self.ended.oom_kills.load(Ordering::Relaxed) + self.init_oom_kills()
            }),
        }
    }

    /// Of processes in no command's group: init, and all of a box that is one thing to the host.
    fn init_oom_kills(&self) -> u64 {
        let count = match self.place(Controller::Memory) {
            Ok(Some((_, true))) => self.init.keyed_number("memory.events", "oom_kill"),
            Ok(Some((group, false))) => group.keyed_number("memory.oom_control", "oom_kill"),
            _ => None,
        };
        count.unwrap_or(0)
    }

    /// Puts what already runs in the session into the groups that were made after it was started.
    pub(crate) fn gather(&self) -> io::Result<()> {
        let doors = self.doors()?;
        for pid in self.init.read("cgroup.procs")?.lines() {
            for door in &doors {
                match rustix::io::write(door, pid.as_bytes()) {
                    // It has just ended.
                    Ok(_) | Err(rustix::io::Errno::SRCH) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }

    /// Ends everything in the session and removes its groups.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.unified.end()?;
        self.beside.iter().filter_map(|beside| beside.made.get()).try_for_each(Group::remove)
    }

    /// Ends everything without waiting. The groups are of no use to another session then.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.unified.kill()
    }
}

impl Drop for SessionGroups {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "could not end the processes of a session");
        }
    }
}

/// The group of a session in a v1 hierarchy, made when it is needed.
#[derive(Debug)]
struct Beside {
    controller: Controller,
    host: Arc<Group>,
    name: String,
    made: OnceLock<Group>,
}

impl Beside {
    fn new(controller: Controller, host: &Arc<Group>, name: &str) -> Self {
        Self { controller, host: Arc::clone(host), name: name.to_owned(), made: OnceLock::new() }
    }

    fn group(&self) -> io::Result<&Group> {
        if let Some(group) = self.made.get() {
            return Ok(group);
        }
        let group = self.host.child(&self.name)?;
        Ok(self.made.get_or_init(|| group))
    }
}

/// Nobody holds it and nothing runs in it.
fn is_free(group: &Arc<CommandGroup>) -> bool {
    Arc::strong_count(group) == 1 && group.unified.is_empty()
}

/// The groups of one command and everything it starts.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    unified: Group,
    /// With the files processes enter through.
    beside: Vec<(Controller, OwnedFd, Group)>,
    memory_inside: bool,
    pids_inside: bool,
    /// It has no limits of its own, so that any command can have it next.
    is_plain: bool,
    /// What earlier commands in this group lost.
    oom_kills_before: AtomicU64,
}

impl CommandGroup {
    /// What the command writes itself into.
    pub(crate) fn doors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.beside.iter().map(|(_, door, _)| door.as_fd())
    }

    fn is_reusable(&self) -> bool {
        self.is_plain && !self.unified.was_killed()
    }

    fn counts_memory(&self) -> bool {
        self.memory_inside || self.beside(Controller::Memory).is_some()
    }

    /// Another command gets it.
    fn begin(&self) {
        self.oom_kills_before.store(self.oom_kills_ever(), Ordering::Relaxed);
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.unified.kill()
    }

    /// How many processes of the command the kernel has killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.oom_kills_ever().saturating_sub(self.oom_kills_before.load(Ordering::Relaxed))
    }

    fn oom_kills_ever(&self) -> u64 {
        if self.memory_inside {
            return self.unified.keyed_number("memory.events", "oom_kill").unwrap_or(0);
        }
        self.beside(Controller::Memory)
            .and_then(|group| group.keyed_number("memory.oom_control", "oom_kill"))
            .unwrap_or(0)
    }

    /// How many forks of commands in this group a process limit has refused and the session's group has not counted.
    fn refused_forks(&self) -> u64 {
        let group = if self.pids_inside {
            // Where this file is, events are counted by all groups above too.
            Some(&self.unified).filter(|group| group.read("pids.events.local").is_err())
        } else {
            self.beside(Controller::Pids)
        };
        group.and_then(|group| group.keyed_number("pids.events", "max")).unwrap_or(0)
    }

    fn beside(&self, controller: Controller) -> Option<&Group> {
        self.beside.iter().find(|(found, ..)| *found == controller).map(|(_, _, group)| group)
    }

    fn remove(&self) -> bool {
        if self.unified.remove().is_err() {
            return false;
        }
        for (_, _, group) in &self.beside {
            if let Err(error) = group.remove() {
                tracing::warn!(cgroup = %group.directory().display(), %error, "could not remove a command's cgroup");
            }
        }
        true
    }
}

impl AsFd for CommandGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.unified.as_fd()
    }
}

/// Takes a limit away, and forgets the highest use there was.
fn lift_limit(group: &Group, controller: Controller, unified: bool) -> io::Result<()> {
    match (controller, unified) {
        (Controller::Cpu, true) => group.write("cpu.max", "max"),
        (Controller::Cpu, false) => group.write("cpu.cfs_quota_us", "-1"),
        (Controller::Pids, _) => group.write("pids.max", "max"),
        (Controller::Memory, true) => {
            group.write("memory.max", "max")?;
            let _ = group.write("memory.swap.max", "max");
            let _ = group.write("memory.peak", "0");
            Ok(())
        }
        (Controller::Memory, false) => {
            let _ = group.write("memory.memsw.limit_in_bytes", "-1");
            group.write("memory.limit_in_bytes", "-1")?;
            group.write("memory.max_usage_in_bytes", "0")
        }
    }
}

fn set_limit(group: &Group, controller: Controller, unified: bool, limits: &Resources) -> io::Result<()> {
    match controller {
        Controller::Cpu => {
            let Some(cpus) = limits.cpus else { return Ok(()) };
            let quota = cpu_quota(cpus);
            if unified {
                group.write("cpu.max", format!("{quota} {CPU_PERIOD}"))
            } else {
                group.write("cpu.cfs_period_us", CPU_PERIOD.to_string())?;
                group.write("cpu.cfs_quota_us", quota.to_string())
            }
        }
        Controller::Memory => {
            let Some(memory) = limits.memory else { return Ok(()) };
            let bytes = memory.get().to_string();
            if unified {
                group.write("memory.max", &bytes)?;
                // Swap would only delay the end; not every machine counts it.
                let _ = group.write("memory.swap.max", "0");
            } else {
                group.write("memory.limit_in_bytes", &bytes)?;
                let _ = group.write("memory.memsw.limit_in_bytes", &bytes);
            }
            Ok(())
        }
        Controller::Pids => match limits.pids {
            Some(pids) => group.write("pids.max", pids.to_string()),
            None => Ok(()),
        },
    }
}

/// Microseconds in a period; the kernel takes no less than a thousand.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped first"
)]
fn cpu_quota(cpus: f64) -> u64 {
    (cpus * CPU_PERIOD as f64).clamp(1000.0, 1e12) as u64
}
