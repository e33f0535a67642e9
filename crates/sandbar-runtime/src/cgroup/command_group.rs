//! The cgroups of one command and all its descendants.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    controllers::Controller,
    group::{Group, keyed_number},
};

/// Leaf group of one command, and its groups in v1 hierarchies.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    pub(super) v2: Group,
    /// Groups in v1 hierarchies, each with its `cgroup.procs` open for writing.
    pub(super) v1: Vec<(Controller, OwnedFd, Group)>,
    pub(super) memory_in_v2: bool,
    pub(super) pids_in_v2: bool,
    /// The group has no limits of its own, so any command of the session can reuse it.
    pub(super) is_plain: bool,
    /// OOM kills counted for earlier commands in this group.
    pub(super) oom_kills_before: AtomicU64,
    /// `memory.oom_control` of the session's v1 group, if commands share that.
    pub(super) shared_oom: Option<File>,
    /// Its OOM kills when the current command was started.
    pub(super) shared_oom_before: AtomicU64,
}

impl CommandGroup {
    /// Returns the `cgroup.procs` descriptors of its v1 groups, which the command writes itself
    /// into.
    pub(crate) fn v1_procs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.v1.iter().map(|(_, procs, _)| procs.as_fd())
    }

    /// Returns whether no command uses the group and it has no processes.
    pub(super) fn is_idle(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && self.v2.is_empty()
    }

    pub(super) fn is_reusable(&self) -> bool {
        self.is_plain && !self.v2.was_killed()
    }

    pub(super) fn has_memory_group(&self) -> bool {
        self.v1_group(Controller::Memory).is_some()
    }

    /// Starts counting anew, for another command.
    pub(super) fn reset_counters(&self) {
        self.oom_kills_before
            .store(self.total_oom_kills(), Ordering::Relaxed);
        self.shared_oom_before
            .store(self.total_shared_oom_kills(), Ordering::Relaxed);
    }

    /// Returns how many processes of the session the OOM killer has killed since the current
    /// command was started, if they are not counted per command.
    pub(crate) fn shared_oom_kills(&self) -> u64 {
        self.total_shared_oom_kills()
            .saturating_sub(self.shared_oom_before.load(Ordering::Relaxed))
    }

    fn total_shared_oom_kills(&self) -> u64 {
        let mut text = [0; 256];
        let read = self
            .shared_oom
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok());
        read.and_then(|length| keyed_number(&String::from_utf8_lossy(&text[..length]), "oom_kill"))
            .unwrap_or(0)
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.v2.kill()
    }

    /// Returns how many processes of the current command the OOM killer has killed.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.total_oom_kills()
            .saturating_sub(self.oom_kills_before.load(Ordering::Relaxed))
    }

    /// Returns the OOM kills of all commands this group was used for.
    pub(super) fn total_oom_kills(&self) -> u64 {
        if self.memory_in_v2 {
            return self
                .v2
                .keyed_number("memory.events", "oom_kill")
                .unwrap_or(0);
        }
        self.v1_group(Controller::Memory)
            .and_then(|group| group.keyed_number("memory.oom_control", "oom_kill"))
            .unwrap_or(0)
    }

    /// Returns how many forks in this group the process limit has refused, without those the
    /// session's group counts itself.
    pub(super) fn refused_forks(&self) -> u64 {
        let group = if self.pids_in_v2 {
            // Kernels with `pids.events.local` propagate `pids.events` to the groups above.
            Some(&self.v2).filter(|group| group.read("pids.events.local").is_err())
        } else {
            self.v1_group(Controller::Pids)
        };
        group
            .and_then(|group| group.keyed_number("pids.events", "max"))
            .unwrap_or(0)
    }

    fn v1_group(&self, controller: Controller) -> Option<&Group> {
        self.v1
            .iter()
            .find(|(found, ..)| *found == controller)
            .map(|(_, _, group)| group)
    }

    /// Removes the groups. Returns `false` if the leaf group could not be removed.
    pub(super) fn remove(&self) -> bool {
        if self.v2.remove().is_err() {
            return false;
        }
        for (_, _, group) in &self.v1 {
            if let Err(error) = group.remove() {
                tracing::warn!(cgroup = %group.directory().display(), %error, "could not remove a command's cgroup");
            }
        }
        true
    }
}

impl AsFd for CommandGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.v2.as_fd()
    }
}
