//! Lookup of the v1 and v2 hierarchies that provide each controller.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A cgroup controller that limits sessions and commands.
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

/// Version of the hierarchy a controller is used from. The two name their files differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    V1,
    V2,
}

/// Returns the v2 directories our groups may be created in: the root of the hierarchy, and our own
/// group in case it was delegated to us.
pub(super) fn v2_parents() -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or_default();
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

/// Returns the mount point of the v1 hierarchy that has this controller.
pub(super) fn v1_hierarchy(controller: Controller) -> Option<PathBuf> {
    v1_hierarchy_in(controller, &fs::read_to_string("/proc/self/mounts").ok()?)
}

pub(super) fn v1_hierarchy_in(controller: Controller, mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, mount_point, kind, options) = (
            fields.next()?,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        );
        (kind == "cgroup" && options.split(',').any(|option| option == controller.name()))
            .then(|| mount_point.into())
    })
}
