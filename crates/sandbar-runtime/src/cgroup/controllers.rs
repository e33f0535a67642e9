//! Where the controllers of this machine are.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A controller we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    pub(super) const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// Where v2 groups of ours may lie: the top of the hierarchy, or below our own group where that was delegated to us.
pub(super) fn unified_parents() -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mut found = Vec::new();
    for mount in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new) {
        if mount.join("cgroup.controllers").exists() {
            found.push(mount.to_owned());
            if !own.is_empty() {
                found.push(mount.join(own));
            }
        }
    }
    found
}

/// The v1 hierarchy that has a controller.
pub(super) fn separate_parent(controller: Controller) -> Option<PathBuf> {
    hierarchy_of(controller, &fs::read_to_string("/proc/self/mounts").ok()?)
}

pub(super) fn hierarchy_of(controller: Controller, mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, kind, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup" && options.split(',').any(|option| option == controller.name())).then(|| place.into())
    })
}
