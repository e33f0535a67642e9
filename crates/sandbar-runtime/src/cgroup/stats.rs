//! Resource usage of one session, read from its cgroups.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sandbar_core::ByteCount;

use super::{
    command_group::CommandGroup,
    controllers::{Controller, Hierarchy},
    session_groups::SessionGroups,
};
use crate::SandboxStats;

/// Counters of command groups that were removed. The kernel counts these per command group only.
#[derive(Debug, Default)]
pub(super) struct RemovedCounts {
    oom_kills: AtomicU64,
    refused_forks: AtomicU64,
}

impl RemovedCounts {
    /// Adds what was read from a group before its removal.
    pub(super) fn add(&self, oom_kills: u64, refused_forks: u64) {
        self.oom_kills.fetch_add(oom_kills, Ordering::Relaxed);
        self.refused_forks
            .fetch_add(refused_forks, Ordering::Relaxed);
    }
}

impl SessionGroups {
    /// Returns the resource usage of the current session.
    pub(crate) fn stats(&self) -> SandboxStats {
        let (all, before) = (self.counters(), &self.before);
        let since =
            |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        SandboxStats {
            cpu_time: all
                .cpu_time
                .map(|time| time.saturating_sub(before.cpu_time.unwrap_or_default())),
            refused_forks: since(all.refused_forks, before.refused_forks),
            oom_kills: since(all.oom_kills, before.oom_kills),
            ..all
        }
    }

    /// Returns the kernel's counters, including those of earlier sessions in these groups.
    pub(super) fn counters(&self) -> SandboxStats {
        let memory = |v1: &str, v2: &str| {
            let (group, hierarchy) = self.controller_group(Controller::Memory).ok()??;
            let file = match hierarchy {
                Hierarchy::V1 => v1,
                Hierarchy::V2 => v2,
            };
            group.number(file).map(ByteCount)
        };
        let pids = self
            .controller_group(Controller::Pids)
            .ok()
            .flatten()
            .map(|(group, _)| group);
        SandboxStats {
            cpu_time: self
                .v2
                .keyed_number("cpu.stat", "usage_usec")
                .map(Duration::from_micros),
            memory: memory("memory.usage_in_bytes", "memory.current"),
            memory_peak: memory("memory.max_usage_in_bytes", "memory.peak"),
            // Without init.
            processes: pids
                .and_then(|group| group.number("pids.current"))
                .map(|count| count.saturating_sub(1)),
            refused_forks: pids
                .and_then(|group| group.keyed_number("pids.events", "max"))
                .map(|own| {
                    own + self.sum(CommandGroup::refused_forks)
                        + self.removed.refused_forks.load(Ordering::Relaxed)
                }),
            oom_kills: self
                .controller_group(Controller::Memory)
                .ok()
                .flatten()
                .map(|_| {
                    self.sum(CommandGroup::total_oom_kills)
                        + self.removed.oom_kills.load(Ordering::Relaxed)
                        + self.init_oom_kills()
                }),
        }
    }

    fn sum(&self, counter: impl Fn(&CommandGroup) -> u64) -> u64 {
        self.commands().iter().map(|group| counter(group)).sum()
    }

    /// Returns the OOM kills of processes in no command's group: init, and everything in a gVisor
    /// container.
    fn init_oom_kills(&self) -> u64 {
        let count = match self.controller_group(Controller::Memory) {
            Ok(Some((_, Hierarchy::V2))) => self.init.keyed_number("memory.events", "oom_kill"),
            Ok(Some((group, Hierarchy::V1))) => {
                group.keyed_number("memory.oom_control", "oom_kill")
            }
            _ => None,
        };
        count.unwrap_or(0)
    }
}
