//! The groups of one session: limits of all of it, and a group for each command.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sandbar_core::{ByteCount, Resources};

use super::{controllers::Controller, group::Group};
use crate::SandboxStats;

/// Length of the period CPU time is counted in, in microseconds.
const CPU_PERIOD: u64 = 100_000;

#[derive(Debug)]
pub(crate) struct SessionGroups {
    unified: Group,
    init: Group,
    inside: Vec<Controller>,
    beside: Vec<(Controller, Group)>,
    /// The owner commands are started by.
    owner: Option<u32>,
    limits: Resources,
    next: AtomicU64,
    /// A group made while nobody waited.
    ready: Mutex<Option<CommandGroup>>,
    oom_kills: Arc<AtomicU64>,
}

impl SessionGroups {
    pub(super) fn new(unified: Group, inside: Vec<Controller>, beside: Vec<(Controller, Group)>) -> io::Result<Self> {
        let init = unified.child("init")?;
        Ok(Self {
            unified,
            init,
            inside,
            beside,
            owner: None,
            limits: Resources::default(),
            next: AtomicU64::new(1),
            ready: Mutex::default(),
            oom_kills: Arc::default(),
        })
    }

    /// Sets what everything in the session may use together. Init is one process more than was asked for.
    pub(crate) fn limit(&mut self, limits: &Resources) -> io::Result<()> {
        let with_init = Resources { pids: limits.pids.map(|pids| pids.saturating_add(1)), ..limits.clone() };
        for controller in Controller::ALL {
            if let Some((group, two)) = self.place(controller) {
                set_limit(group, controller, two, &with_init)?;
            }
        }
        self.limits = limits.clone();
        Ok(())
    }

    /// Lets this owner start processes in the session's groups.
    pub(crate) fn delegate(&mut self, owner: u32) -> io::Result<()> {
        self.unified.delegate(owner)?;
        self.owner = Some(owner);
        Ok(())
    }

    /// The group of a controller, and whether it is the unified one.
    fn place(&self, controller: Controller) -> Option<(&Group, bool)> {
        if self.inside.contains(&controller) {
            return Some((&self.unified, true));
        }
        self.beside.iter().find(|(found, _)| *found == controller).map(|(_, group)| (group, false))
    }

    /// Where init is started.
    pub(crate) fn init(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }

    /// What init writes itself into beside that.
    pub(crate) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        self.beside.iter().map(|(_, group)| group.door()).collect()
    }

    /// A group for a command with these limits.
    pub(crate) fn command(&self, limits: &Resources) -> io::Result<CommandGroup> {
        let own = Resources {
            cpus: limits.cpus.filter(|_| limits.cpus != self.limits.cpus),
            memory: limits.memory.filter(|_| limits.memory != self.limits.memory),
            pids: limits.pids.filter(|_| limits.pids != self.limits.pids),
            ..Resources::default()
        };
        if own == Resources::default()
            && let Some(ready) = self.ready.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            return Ok(ready);
        }
        self.make_command(&own)
    }

    /// Makes a group ahead of the next command.
    pub(crate) fn prepare(&self) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_none() {
            // Without one, the next command makes its own and tells why it could not.
            *ready = self.make_command(&Resources::default()).ok();
        }
    }

    fn make_command(&self, own: &Resources) -> io::Result<CommandGroup> {
        let name = format!("exec-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let unified = self.unified.child(&name)?;
        let mut group = CommandGroup {
            unified,
            beside: Vec::new(),
            memory_inside: self.inside.contains(&Controller::Memory),
            oom_kills: Arc::clone(&self.oom_kills),
        };
        if let Some(owner) = self.owner {
            group.unified.delegate(owner)?;
        }
        for controller in Controller::ALL {
            let limited = match controller {
                Controller::Cpu => own.cpus.is_some(),
                Controller::Pids => own.pids.is_some(),
                // Counted for each command, so that it can be told whose processes the kernel killed.
                Controller::Memory => own.memory.is_some() || self.limits.memory.is_some(),
            };
            match self.place(controller) {
                Some((_, true)) => set_limit(&group.unified, controller, true, own)?,
                Some((session, false)) if limited => {
                    let beside = session.child(&name)?;
                    set_limit(&beside, controller, false, own)?;
                    group.beside.push((controller, beside));
                }
                _ => {}
            }
        }
        Ok(group)
    }

    pub(crate) fn freeze(&self) -> io::Result<()> {
        self.unified.freeze()
    }

    pub(crate) fn thaw(&self) -> io::Result<()> {
        self.unified.thaw()
    }

    pub(crate) fn stats(&self) -> SandboxStats {
        let memory = |one: &str, two: &str| {
            let (group, unified) = self.place(Controller::Memory)?;
            group.number(if unified { two } else { one }).map(ByteCount)
        };
        let pids = self.place(Controller::Pids).map(|(group, _)| group);
        SandboxStats {
            cpu_time: self.unified.keyed_number("cpu.stat", "usage_usec").map(Duration::from_micros),
            memory: memory("memory.usage_in_bytes", "memory.current"),
            memory_peak: memory("memory.max_usage_in_bytes", "memory.peak"),
            // Init is not the session's.
            processes: pids.and_then(|group| group.number("pids.current")).map(|count| count.saturating_sub(1)),
            refused_forks: pids.and_then(|group| group.keyed_number("pids.events", "max")),
            oom_kills: self.place(Controller::Memory).map(|_| self.oom_kills.load(Ordering::Relaxed)),
        }
    }

    /// How many processes the kernel has killed for want of memory that were in no command's group, as where a box is one
    /// thing to the host.
    pub(crate) fn own_oom_kills(&self) -> u64 {
        let count = self.place(Controller::Memory).and_then(|(group, unified)| {
            group.keyed_number(if unified { "memory.events" } else { "memory.oom_control" }, "oom_kill")
        });
        count.unwrap_or(0)
    }

    /// Ends everything in the session and removes its groups.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.unified.end()?;
        self.beside.iter().try_for_each(|(_, group)| group.remove())
    }

    /// Ends everything without waiting.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.unified.kill()
    }
}

/// The groups of one command and everything it starts.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    unified: Group,
    beside: Vec<(Controller, Group)>,
    memory_inside: bool,
    oom_kills: Arc<AtomicU64>,
}

impl CommandGroup {
    /// What the command writes itself into.
    pub(crate) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        self.beside.iter().map(|(_, group)| group.door()).collect()
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.unified.kill()
    }

    /// How many processes of the command the kernel has killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        if self.memory_inside {
            return self.unified.keyed_number("memory.events", "oom_kill").unwrap_or(0);
        }
        let memory = self.beside.iter().find(|(controller, _)| *controller == Controller::Memory);
        memory.and_then(|(_, group)| group.keyed_number("memory.oom_control", "oom_kill")).unwrap_or(0)
    }

    /// Lets go of the groups when nothing runs in them any more.
    pub(crate) fn remove(&self) -> bool {
        let kills = self.oom_kills();
        if self.unified.remove().is_err() {
            return false;
        }
        self.oom_kills.fetch_add(kills, Ordering::Relaxed);
        for (_, group) in &self.beside {
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
