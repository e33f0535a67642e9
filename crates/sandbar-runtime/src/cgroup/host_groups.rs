//! The groups all sessions of one host lie in.

use std::{
    io,
    ops::{Deref, DerefMut},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sandbar_core::Capability;

use super::{
    controllers::{Controller, separate_parent, unified_parents},
    group::Group,
    session_groups::SessionGroups,
};

/// How many groups are kept for sessions to come.
const READY: usize = 16;

#[derive(Debug)]
pub(crate) struct HostGroups {
    unified: Group,
    /// Controllers the unified hierarchy has.
    inside: Vec<Controller>,
    /// Controllers that live in a v1 hierarchy.
    beside: Vec<(Controller, Arc<Group>)>,
    next: AtomicU64,
    /// Groups for sessions to come.
    ready: Mutex<Vec<SessionGroups>>,
    is_closed: AtomicBool,
}

impl HostGroups {
    /// Ends what an earlier host of this name left, then makes the groups anew. The error is the reason why cgroups cannot
    /// be used here.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        let parents = unified_parents();
        let separate: Vec<_> = Controller::ALL
            .into_iter()
            .filter_map(|controller| Some((controller, separate_parent(controller)?)))
            .collect();
        for parent in parents.iter().chain(separate.iter().map(|(_, parent)| parent)) {
            end_leftover(&parent.join(name));
        }
        let mut reason = "there is no cgroup v2 file system".to_owned();
        for parent in parents {
            match Group::create(parent.join(name)) {
                Ok(unified) => {
                    let inside = hand_down(&parent, &unified);
                    let beside = separate
                        .iter()
                        .filter(|(controller, _)| !inside.contains(controller))
                        .filter_map(|(controller, parent)| {
                            Some((*controller, Arc::new(Group::create(parent.join(name)).ok()?)))
                        })
                        .collect();
                    return Ok(Self {
                        unified,
                        inside,
                        beside,
                        next: AtomicU64::new(1),
                        ready: Mutex::default(),
                        is_closed: AtomicBool::new(false),
                    });
                }
                Err(error) => reason = format!("`{}` is not usable: {error}", parent.display()),
            }
        }
        Err(reason)
    }

    /// Puts a process of the host's into a group of its own here, which also shows that it can be done. The error is the
    /// reason why cgroups cannot be used.
    pub(crate) fn adopting(self, pid: u32) -> Result<Self, String> {
        let adopted = self.unified.child("spawner").and_then(|group| group.write("cgroup.procs", pid.to_string()));
        match adopted {
            Ok(()) => Ok(self),
            Err(error) => {
                let _ = self.end();
                Err(format!("processes cannot be put into cgroups: {error}"))
            }
        }
    }

    /// Whether CPU, memory and process counts can all be limited.
    pub(crate) fn limits(&self) -> Capability {
        let missing: Vec<&str> =
            Controller::ALL.into_iter().filter(|wanted| !self.has(*wanted)).map(Controller::name).collect();
        if missing.is_empty() {
            Capability::Yes
        } else {
            Capability::no(format!("the cgroup controllers {} are not available", missing.join(", ")))
        }
    }

    fn has(&self, wanted: Controller) -> bool {
        self.inside.contains(&wanted) || self.beside.iter().any(|(controller, _)| *controller == wanted)
    }

    /// Groups for a session: those of one that has ended, or new ones. Making and removing groups costs a good part of what
    /// a new box costs. Their names are numbers, since sessions come and go.
    pub(crate) fn session(self: &Arc<Self>) -> io::Result<SessionLease> {
        let ready = self.ready().pop();
        let groups = ready.map_or_else(|| self.make_session(), Ok)?;
        Ok(SessionLease { groups: Some(groups), host: Arc::clone(self) })
    }

    /// Keeps the groups of a session that has ended for another one.
    fn take_back(&self, mut groups: SessionGroups) {
        if let Err(error) = groups.empty() {
            tracing::warn!(%error, "could not end the processes of a session");
            return;
        }
        if self.is_closed.load(Ordering::SeqCst) || groups.reset().is_err() {
            return;
        }
        let mut ready = self.ready();
        if ready.len() < READY {
            ready.push(groups);
        }
    }

    fn ready(&self) -> MutexGuard<'_, Vec<SessionGroups>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_session(&self) -> io::Result<SessionGroups> {
        let name = format!("box-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let unified = self.unified.child(&name)?;
        SessionGroups::make(&name, unified, self.inside.clone(), &self.beside)
    }

    /// Ends everything, the adopted process too.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        self.ready().clear();
        self.unified.end()?;
        for (_, group) in &self.beside {
            group.remove()?;
        }
        Ok(())
    }
}

/// The groups of a session as long as it needs them; whatever runs in them ends with the lease.
#[derive(Debug)]
pub(crate) struct SessionLease {
    groups: Option<SessionGroups>,
    host: Arc<HostGroups>,
}

impl Deref for SessionLease {
    type Target = SessionGroups;

    fn deref(&self) -> &SessionGroups {
        // Taken only when the lease is dropped.
        self.groups.as_ref().unwrap_or_else(|| unreachable!("a lease without groups"))
    }
}

impl DerefMut for SessionLease {
    fn deref_mut(&mut self) -> &mut SessionGroups {
        self.groups.as_mut().unwrap_or_else(|| unreachable!("a lease without groups"))
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        if let Some(groups) = self.groups.take() {
            self.host.take_back(groups);
        }
    }
}

fn end_leftover(directory: &Path) {
    if !directory.is_dir() {
        return;
    }
    tracing::info!(cgroup = %directory.display(), "ending what an earlier host left running");
    let ended = Group::at(directory.to_owned()).and_then(|group| {
        // A v1 group has no events to wait for; its processes are in the v2 group, which was ended before.
        if directory.join("cgroup.events").exists() { group.end() } else { group.remove() }
    });
    if let Err(error) = ended {
        tracing::warn!(cgroup = %directory.display(), %error, "could not end everything an earlier host left");
    }
}

/// Makes the controllers of the unified hierarchy usable below our group; returns those that are.
fn hand_down(parent: &Path, unified: &Group) -> Vec<Controller> {
    let Ok(parent) = Group::at(parent.to_owned()) else { return Vec::new() };
    let _ = enable(&parent, &Controller::ALL);
    let _ = enable(unified, &Controller::ALL);
    let enabled = unified.read("cgroup.subtree_control").unwrap_or_default();
    Controller::ALL
        .into_iter()
        .filter(|controller| enabled.split_whitespace().any(|name| name == controller.name()))
        .collect()
}

fn enable(group: &Group, controllers: &[Controller]) -> io::Result<()> {
    controllers
        .iter()
        .try_for_each(|controller| group.write("cgroup.subtree_control", format!("+{}", controller.name())))
}
