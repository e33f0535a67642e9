//! The groups all sessions of one host lie in.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use sandbar_core::Capability;

use super::{
    controllers::{Controller, separate_parent, unified_parents},
    group::Group,
    session_groups::SessionGroups,
};

/// How many sessions find their groups made.
const READY: usize = 4;

#[derive(Debug)]
pub(crate) struct HostGroups {
    unified: Group,
    /// Controllers the unified hierarchy has.
    inside: Vec<Controller>,
    /// Controllers that live in a v1 hierarchy.
    beside: Vec<(Controller, Arc<Group>)>,
    next: AtomicU64,
    /// Groups for sessions to come, made while nobody waited.
    ready: Mutex<Vec<SessionGroups>>,
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
                    return Ok(Self { unified, inside, beside, next: AtomicU64::new(1), ready: Mutex::default() });
                }
                Err(error) => reason = format!("`{}` is not usable: {error}", parent.display()),
            }
        }
        Err(reason)
    }

    /// Puts a process of the host's into a group of its own here, which also shows that it can be done.
    pub(crate) fn adopt(&self, pid: u32) -> io::Result<()> {
        self.unified.child("spawner")?.write("cgroup.procs", pid.to_string())
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

    /// Groups for a session. Their names are numbers, so that they can be made ahead.
    pub(crate) fn session(&self) -> io::Result<SessionGroups> {
        let ready = self.ready().pop();
        ready.map_or_else(|| self.make_session(), Ok)
    }

    /// Makes groups ahead of the next session.
    pub(crate) fn prepare(&self) {
        while self.ready().len() < READY {
            // Without them, the next session makes its own and tells why it could not.
            let Ok(session) = self.make_session() else { return };
            self.ready().push(session);
        }
    }

    fn ready(&self) -> MutexGuard<'_, Vec<SessionGroups>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_session(&self) -> io::Result<SessionGroups> {
        let name = format!("box-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let unified = self.unified.child(&name)?;
        if !self.inside.is_empty() {
            let _ = enable(&unified, &self.inside);
        }
        SessionGroups::make(&name, unified, self.inside.clone(), &self.beside)
    }

    /// Ends everything, the adopted process too.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.ready().clear();
        self.unified.end()?;
        for (_, group) in &self.beside {
            group.remove()?;
        }
        Ok(())
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
