//! One container, from its start to the last trace of it.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use sandbar_core::{Error, Resources, Result, SessionId};
use sandbar_netns::LinkedNetwork;

use super::{
    bundle::{Bundle, PIPES},
    guest::EnterOrder,
    host_process::HostProcess,
    runsc::{Call, Runsc},
    tree::{self, OwnMounts},
};
use crate::{
    BoxNetwork, Trust,
    boxed::{LinkSockets, PipeDirectory},
    cgroup::{HostGroups, SessionGroups, SessionLease},
    environment::text,
    protocol::send_frame,
};

/// What containers are made with.
#[derive(Debug)]
pub(super) struct Workshop {
    pub(super) runsc: Runsc,
    /// Holds a directory for each container.
    pub(super) directory: PathBuf,
    /// `None` when cgroups cannot be used.
    pub(super) groups: Option<Arc<HostGroups>>,
}

/// A container that runs. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Container {
    id: String,
    bundle: Bundle,
    /// Our ends of init's sockets. Init ends when nobody holds them.
    sockets: Option<[UnixStream; 2]>,
    groups: Option<Arc<SessionLease>>,
    /// The kernel in user space, and the gofer, in the order they are to be ended.
    processes: Vec<HostProcess>,
    gofer: Option<usize>,
    /// Until somebody takes it; `None` also when it has nothing but a loopback of its own.
    network: Option<LinkedNetwork>,
}

/// With the last container goes the directory that held them, and the one around it unless the host keeps more there.
impl Drop for Workshop {
    fn drop(&mut self) {
        for directory in self.directory.ancestors().take(2) {
            let _ = fs::remove_dir(directory);
        }
    }
}

impl Workshop {
    /// Starts a container that waits for its tree, or with the tree in place.
    pub(super) fn start(&self, tree: Option<&Path>, network: BoxNetwork) -> Result<Container> {
        let mut container = self.prepare(network)?;
        let mounts = match tree {
            Some(tree) => Some(OwnMounts::new(tree, &container.bundle.session()).map_err(failed)?),
            None => None,
        };
        container.launch(&self.runsc, "run", &[], mounts)?;
        Ok(container)
    }

    /// The directory and the cgroups of a container that is not started yet.
    pub(super) fn prepare(&self, network: BoxNetwork) -> Result<Container> {
        let id = SessionId::random().to_string();
        let linked = match network {
            BoxNetwork::Closed => None,
            BoxNetwork::Gated => Some(LinkedNetwork::make().map_err(|error| Error::io("make a network", error))?),
        };
        let session = linked.as_ref().map(|linked| linked.session.as_fd());
        let bundle = Bundle::create(self.directory.join(&id), session).map_err(failed)?;
        let (sockets, groups, processes, gofer) = (None, None, Vec::new(), None);
        let mut container = Container { id, bundle, sockets, groups, processes, gofer, network: linked };
        if let Some(groups) = &self.groups {
            let session = groups.session().and_then(|session| session.open_for_commands().map(|()| session));
            container.groups = Some(Arc::new(session.map_err(failed)?));
        }
        Ok(container)
    }
}

impl Container {
    fn launch(&mut self, runsc: &Runsc, verb: &str, arguments: &[&OsStr], mounts: Option<OwnMounts>) -> Result<()> {
        let LinkSockets { ours, theirs } = LinkSockets::pair().map_err(failed)?;
        let doors = self.groups.as_ref().map_or_else(|| Ok(Vec::new()), |groups| doors(groups)).map_err(failed)?;
        let pid_file = self.bundle.pid_file();
        let common = [
            OsStr::new("-detach"),
            OsStr::new("-bundle"),
            self.bundle.directory().as_os_str(),
            OsStr::new("-pid-file"),
            pid_file.as_os_str(),
        ];
        let arguments = common.iter().chain(arguments).copied().chain([OsStr::new(&self.id)]).collect();
        let network = if self.network.is_some() { BoxNetwork::Gated } else { BoxNetwork::Closed };
        let call = Call { verb, arguments, streams: Some(theirs.map(OwnedFd::from)), doors, mounts, network };
        runsc.call(&self.bundle.state(), call)?;
        self.sockets = Some(ours);
        self.find_processes().map_err(|error| Error::io("find the processes of a container", error))
    }

    /// Writes the container into `image` and ends it.
    pub(super) fn save(&mut self, runsc: &Runsc, image: &Path) -> Result<()> {
        let arguments = vec![OsStr::new("-image-path"), image.as_os_str(), OsStr::new(&self.id)];
        runsc.call(&self.bundle.state(), Call { verb: "checkpoint", arguments, ..Call::default() })?;
        let ended = self.end_processes().and_then(|()| self.bundle.clear_state());
        ended.map_err(|error| Error::io("end a container that was written to disk", error))
    }

    /// Starts from `image`, over the tree it was written with.
    pub(super) fn restore(&mut self, runsc: &Runsc, image: &Path, tree: &Path) -> Result<[UnixStream; 2]> {
        let mounts = OwnMounts::new(tree, &self.bundle.session()).map_err(failed)?;
        let arguments = [OsStr::new("-image-path"), image.as_os_str()];
        self.launch(runsc, "restore", &arguments, Some(mounts))?;
        self.take_sockets()
    }

    /// What stands for its network, for whoever opens its gate.
    pub(super) fn take_network(&mut self) -> Option<LinkedNetwork> {
        self.network.take()
    }

    fn take_sockets(&mut self) -> Result<[UnixStream; 2]> {
        self.sockets.take().ok_or_else(|| Error::internal("a container has no sockets"))
    }

    fn find_processes(&mut self) -> io::Result<()> {
        let pid = fs::read_to_string(self.bundle.pid_file())?;
        let pid = pid.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.processes = vec![HostProcess::open(pid)?];
        if let Some(gofer) = gofer_in(&self.bundle.state()) {
            self.gofer = Some(self.processes.len());
            self.processes.push(HostProcess::open(gofer)?);
        }
        let records: Vec<_> = self.processes.iter().map(HostProcess::record).collect();
        self.bundle.write_processes(&records)
    }

    /// Puts the tree at `root` into a container that was started without one.
    pub(super) fn attach(&self, root: &Path) -> io::Result<()> {
        let gofer = self.gofer.and_then(|index| self.processes.get(index));
        let gofer =
            gofer.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the gofer of a container is unknown"))?;
        tree::attach_late(root, gofer)
    }

    /// Sets what everything in the container may use together.
    pub(super) fn limit(&mut self, limits: &Resources) -> Result<()> {
        let Some(groups) = self.groups.as_mut().and_then(Arc::get_mut) else { return Ok(()) };
        // Processes are counted inside: out here, the threads of the kernel in user space would count.
        let outside = Resources { pids: None, ..limits.clone() };
        groups
            .limit(&outside)
            // The CPU has a group only where it is limited.
            .and_then(|()| if limits.cpus.is_some() { groups.gather() } else { Ok(()) })
            .map_err(|error| Error::io("limit a container", error))
    }

    /// Sets limits, and tells the process inside that the tree is there. It stands when it says so on the socket.
    pub(super) fn enter(
        &mut self,
        limits: &Resources,
        hostname: &str,
        trust: Option<&Trust>,
    ) -> Result<[UnixStream; 2]> {
        self.limit(limits)?;
        if let Some(trust) = trust {
            self.bundle.write_trust(trust).map_err(|error| Error::io("write the certificates of a session", error))?;
        }
        let order =
            EnterOrder { hostname: text("session_id", hostname)?, pids: limits.pids, shows_trust: trust.is_some() };
        let sockets = self.take_sockets()?;
        send_frame(sockets[0].as_fd(), &order.encode(), &[])
            .map_err(|error| Error::io("talk to a container", error))?;
        Ok(sockets)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.processes.iter().all(|process| process.is_alive().unwrap_or(false))
    }

    pub(super) const fn groups(&self) -> Option<&Arc<SessionLease>> {
        self.groups.as_ref()
    }

    /// Where the host makes the named pipes of commands.
    pub(super) fn pipes(&self) -> PipeDirectory {
        PipeDirectory::new(self.bundle.pipes(), PIPES)
    }

    /// Has `runsc` do something to the container.
    pub(super) fn call(&self, runsc: &Runsc, verb: &str) -> Result<()> {
        runsc.call(&self.bundle.state(), Call { verb, arguments: vec![OsStr::new(&self.id)], ..Call::default() })
    }

    fn end_processes(&self) -> io::Result<()> {
        self.processes.iter().try_for_each(HostProcess::end)
    }

    /// Ends it and removes every trace of it. Ending twice is fine.
    pub(super) fn end(&self) -> io::Result<()> {
        if let Some(groups) = &self.groups {
            groups.kill()?;
            groups.empty()?;
        }
        self.end_processes()?;
        self.bundle.remove()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(container = self.id, %error, "could not end a container");
        }
    }
}

/// Everything a process writes itself into to be the container's.
fn doors(groups: &SessionGroups) -> io::Result<Vec<OwnedFd>> {
    let mut doors = groups.doors()?;
    doors.push(groups.guest_door()?);
    Ok(doors)
}

/// The gofer's pid, as far as this version of `runsc` writes it down.
fn gofer_in(state: &Path) -> Option<i32> {
    let mut files = fs::read_dir(state).ok()?.flatten();
    let file = files.find(|entry| entry.path().extension().is_some_and(|kind| kind == "state"))?;
    let state: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
    state.get("goferPid")?.as_i64()?.try_into().ok()
}

fn failed(error: io::Error) -> Error {
    Error::io("start a container", error)
}
