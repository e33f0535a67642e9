//! The cgroups of one host, which contain those of all its sessions.

use std::{
    io,
    ops::{Deref, DerefMut},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sandbar_core::{Capability, MutexExt as _};

use super::{
    controllers::{Controller, v1_hierarchy, v2_parents},
    group::Group,
    session_groups::SessionGroups,
};

/// Limits how many empty session groups are kept for reuse.
const MAX_IDLE_SESSIONS: usize = 16;

#[derive(Debug)]
pub(crate) struct HostGroups {
    v2: Group,
    /// Controllers used from the v2 hierarchy.
    v2_controllers: Vec<Controller>,
    /// Controllers used from v1 hierarchies, with this host's group there.
    v1: Vec<(Controller, Arc<Group>)>,
    next: AtomicU64,
    /// Empty session groups for reuse.
    idle: Mutex<Vec<SessionGroups>>,
    is_closed: AtomicBool,
}

impl HostGroups {
    /// Kills what an earlier host of this name left running and creates the groups again. The error
    /// is the reason why cgroups cannot be used here.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        let parents = v2_parents();
        let v1_parents: Vec<_> = Controller::ALL
            .into_iter()
            .filter_map(|controller| Some((controller, v1_hierarchy(controller)?)))
            .collect();
        for parent in parents
            .iter()
            .chain(v1_parents.iter().map(|(_, parent)| parent))
        {
            kill_leftover(&parent.join(name));
        }
        let mut reason = "no cgroup v2 file system is mounted".to_owned();
        for parent in parents {
            match Group::create(parent.join(name)) {
                Ok(v2) => {
                    let v2_controllers = delegate_controllers(&parent, &v2);
                    let v1 = v1_parents
                        .iter()
                        .filter(|(controller, _)| !v2_controllers.contains(controller))
                        .filter_map(|(controller, parent)| {
                            Some((
                                *controller,
                                Arc::new(Group::create(parent.join(name)).ok()?),
                            ))
                        })
                        .collect();
                    return Ok(Self {
                        v2,
                        v2_controllers,
                        v1,
                        next: AtomicU64::new(1),
                        idle: Mutex::default(),
                        is_closed: AtomicBool::new(false),
                    });
                }
                Err(error) => {
                    reason = format!("cgroup `{}` is not writable: {error}", parent.display());
                }
            }
        }
        Err(reason)
    }

    /// Moves the spawner into a group of its own, which also proves that processes can be moved.
    /// The error is the reason why cgroups cannot be used.
    pub(crate) fn with_spawner(self, pid: u32) -> Result<Self, String> {
        let moved = self
            .v2
            .child("spawner")
            .and_then(|group| group.write("cgroup.procs", pid.to_string()));
        match moved {
            Ok(()) => Ok(self),
            Err(error) => {
                let _ = self.kill_and_remove();
                Err(format!("processes cannot be moved into cgroups: {error}"))
            }
        }
    }

    /// Returns whether CPU, memory and process counts can all be limited.
    pub(crate) fn limits(&self) -> Capability {
        let missing: Vec<&str> = Controller::ALL
            .into_iter()
            .filter(|wanted| !self.has(*wanted))
            .map(Controller::name)
            .collect();
        if missing.is_empty() {
            Capability::Yes
        } else {
            Capability::no(format!(
                "the cgroup controllers {} are not available",
                missing.join(", ")
            ))
        }
    }

    fn has(&self, wanted: Controller) -> bool {
        self.v2_controllers.contains(&wanted)
            || self.v1.iter().any(|(controller, _)| *controller == wanted)
    }

    /// Leases groups for a session: idle ones if there are any, because creating and removing
    /// groups is a large part of the cost of a box. They are reused, so they are named by number
    /// and not by session.
    pub(crate) fn session(self: &Arc<Self>) -> io::Result<SessionLease> {
        let idle = self.idle().pop();
        let groups = idle.map_or_else(|| self.create_session(), Ok)?;
        Ok(SessionLease {
            groups: Some(groups),
            host: Arc::clone(self),
        })
    }

    /// Keeps the groups of a session that has ended for reuse.
    fn recycle(&self, mut groups: SessionGroups) {
        if let Err(error) = groups.wait_until_empty() {
            tracing::warn!(%error, "could not kill the processes of a session");
            return;
        }
        if self.is_closed.load(Ordering::SeqCst) || groups.reset().is_err() {
            return;
        }
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE_SESSIONS {
            idle.push(groups);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SessionGroups>> {
        self.idle.lock_unpoisoned()
    }

    fn create_session(&self) -> io::Result<SessionGroups> {
        let name = format!("box-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let v2 = self.v2.child(&name)?;
        SessionGroups::create(&name, v2, self.v2_controllers.clone(), &self.v1)
    }

    /// Kills all processes in the groups, the spawner included, and removes the groups.
    pub(crate) fn kill_and_remove(&self) -> io::Result<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        self.idle().clear();
        self.v2.kill_and_remove()?;
        for (_, group) in &self.v1 {
            group.remove()?;
        }
        Ok(())
    }
}

/// Groups leased to a session. Dropping the lease kills all processes in them.
#[derive(Debug)]
pub(crate) struct SessionLease {
    groups: Option<SessionGroups>,
    host: Arc<HostGroups>,
}

impl Deref for SessionLease {
    type Target = SessionGroups;

    fn deref(&self) -> &SessionGroups {
        // `None` only after drop.
        self.groups
            .as_ref()
            .unwrap_or_else(|| unreachable!("session lease without groups"))
    }
}

impl DerefMut for SessionLease {
    fn deref_mut(&mut self) -> &mut SessionGroups {
        self.groups
            .as_mut()
            .unwrap_or_else(|| unreachable!("session lease without groups"))
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        if let Some(groups) = self.groups.take() {
            self.host.recycle(groups);
        }
    }
}

fn kill_leftover(directory: &Path) {
    if !directory.is_dir() {
        return;
    }
    tracing::info!(cgroup = %directory.display(), "killing processes an earlier host left running");
    let removed = Group::at(directory.to_owned()).and_then(|group| {
        // A v1 group has no `cgroup.events`. Its processes are also in the v2 group, which was
        // killed before.
        if directory.join("cgroup.events").exists() {
            group.kill_and_remove()
        } else {
            group.remove()
        }
    });
    if let Err(error) = removed {
        tracing::warn!(cgroup = %directory.display(), %error, "could not remove a cgroup an earlier host left");
    }
}

/// Enables the v2 controllers below our group and returns those that could be enabled.
fn delegate_controllers(parent: &Path, v2: &Group) -> Vec<Controller> {
    let Ok(parent) = Group::at(parent.to_owned()) else {
        return Vec::new();
    };
    let _ = enable(&parent, &Controller::ALL);
    let _ = enable(v2, &Controller::ALL);
    let enabled = v2.read("cgroup.subtree_control").unwrap_or_default();
    Controller::ALL
        .into_iter()
        .filter(|controller| {
            enabled
                .split_whitespace()
                .any(|name| name == controller.name())
        })
        .collect()
}

fn enable(group: &Group, controllers: &[Controller]) -> io::Result<()> {
    controllers.iter().try_for_each(|controller| {
        group.write("cgroup.subtree_control", format!("+{}", controller.name()))
    })
}
