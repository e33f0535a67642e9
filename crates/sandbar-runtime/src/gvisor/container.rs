//! Lifecycle of one container.

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
    tree::{self, StartMounts},
};
use crate::{
    BoxNetwork, Trust,
    cgroup::{HostGroups, MemoryScope, SessionGroups, SessionLease},
    environment::c_string,
    protocol::send_frame,
    sandbox::{LinkSockets, PipeDirectory},
};

/// Creates containers.
#[derive(Debug)]
pub(super) struct ContainerFactory {
    pub(super) runsc: Runsc,
    /// Holds a directory for each container.
    pub(super) directory: PathBuf,
    /// `None` if cgroups cannot be used.
    pub(super) groups: Option<Arc<HostGroups>>,
}

/// A running container. Dropping it destroys it.
#[derive(Debug)]
pub(super) struct Container {
    id: String,
    bundle: Bundle,
    /// Host ends of init's sockets. Init exits when they are closed.
    sockets: Option<[UnixStream; 2]>,
    groups: Option<Arc<SessionLease>>,
    /// The sandbox process (the kernel) and the gofer, in the order they are killed.
    processes: Vec<HostProcess>,
    gofer: Option<usize>,
    /// `None` without egress, and after [`take_network`](Self::take_network).
    network: Option<LinkedNetwork>,
}

/// Removes the directory of all containers, and its parent if that is empty.
impl Drop for ContainerFactory {
    fn drop(&mut self) {
        for directory in self.directory.ancestors().take(2) {
            let _ = fs::remove_dir(directory);
        }
    }
}

impl ContainerFactory {
    /// Starts a container, with a tree or waiting for one.
    pub(super) fn start(&self, tree: Option<&Path>, network: BoxNetwork) -> Result<Container> {
        let mut container = self.prepare(network)?;
        let mounts = match tree {
            Some(tree) => {
                Some(StartMounts::new(tree, &container.bundle.session()).map_err(failed)?)
            }
            None => None,
        };
        container.launch(&self.runsc, "run", &[], mounts)?;
        Ok(container)
    }

    /// Creates the directory and the cgroups of a container.
    pub(super) fn prepare(&self, network: BoxNetwork) -> Result<Container> {
        let id = SessionId::random().to_string();
        let linked = match network {
            BoxNetwork::Closed => None,
            BoxNetwork::Egress => Some(
                LinkedNetwork::create().map_err(|error| Error::io("create a network", error))?,
            ),
        };
        let session = linked.as_ref().map(|linked| linked.box_side.as_fd());
        let bundle = Bundle::create(self.directory.join(&id), session).map_err(failed)?;
        let (sockets, groups, processes, gofer) = (None, None, Vec::new(), None);
        let mut container = Container {
            id,
            bundle,
            sockets,
            groups,
            processes,
            gofer,
            network: linked,
        };
        if let Some(groups) = &self.groups {
            let session = groups
                .session()
                .and_then(|session| session.enable_controllers().map(|()| session));
            container.groups = Some(Arc::new(session.map_err(failed)?));
        }
        Ok(container)
    }
}

impl Container {
    fn launch(
        &mut self,
        runsc: &Runsc,
        verb: &str,
        arguments: &[&OsStr],
        mounts: Option<StartMounts>,
    ) -> Result<()> {
        let LinkSockets { ours, theirs } = LinkSockets::pair().map_err(failed)?;
        let procs = self
            .groups
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |groups| procs_of(groups))
            .map_err(failed)?;
        let pid_file = self.bundle.pid_file();
        let common = [
            OsStr::new("-detach"),
            OsStr::new("-bundle"),
            self.bundle.directory().as_os_str(),
            OsStr::new("-pid-file"),
            pid_file.as_os_str(),
        ];
        let arguments = common
            .iter()
            .chain(arguments)
            .copied()
            .chain([OsStr::new(&self.id)])
            .collect();
        let network = if self.network.is_some() {
            BoxNetwork::Egress
        } else {
            BoxNetwork::Closed
        };
        let call = Call {
            verb,
            arguments,
            streams: Some(theirs.map(OwnedFd::from)),
            procs,
            mounts,
            network,
        };
        runsc.call(&self.bundle.state(), call)?;
        self.sockets = Some(ours);
        self.find_processes()
            .map_err(|error| Error::io("find the processes of a container", error))
    }

    /// Writes the container to `image` and ends it.
    pub(super) fn save(&mut self, runsc: &Runsc, image: &Path) -> Result<()> {
        let arguments = vec![
            OsStr::new("-image-path"),
            image.as_os_str(),
            OsStr::new(&self.id),
        ];
        runsc.call(
            &self.bundle.state(),
            Call {
                verb: "checkpoint",
                arguments,
                ..Call::default()
            },
        )?;
        let ended = self
            .kill_processes()
            .and_then(|()| self.bundle.clear_state());
        ended.map_err(|error| Error::io("end a container that was written to disk", error))
    }

    /// Starts the container from `image`, over the tree it was written with.
    pub(super) fn restore(
        &mut self,
        runsc: &Runsc,
        image: &Path,
        tree: &Path,
    ) -> Result<[UnixStream; 2]> {
        let mounts = StartMounts::new(tree, &self.bundle.session()).map_err(failed)?;
        let arguments = [OsStr::new("-image-path"), image.as_os_str()];
        self.launch(runsc, "restore", &arguments, Some(mounts))?;
        self.take_sockets()
    }

    /// Takes the handle on its network.
    pub(super) fn take_network(&mut self) -> Option<LinkedNetwork> {
        self.network.take()
    }

    fn take_sockets(&mut self) -> Result<[UnixStream; 2]> {
        self.sockets
            .take()
            .ok_or_else(|| Error::internal("container has no sockets"))
    }

    fn find_processes(&mut self) -> io::Result<()> {
        let pid = fs::read_to_string(self.bundle.pid_file())?;
        let pid = pid
            .trim()
            .parse()
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.processes = vec![HostProcess::open(pid)?];
        if let Some(gofer) = gofer_in(&self.bundle.state()) {
            self.gofer = Some(self.processes.len());
            self.processes.push(HostProcess::open(gofer)?);
        }
        let records: Vec<_> = self.processes.iter().map(HostProcess::record).collect();
        self.bundle.write_processes(&records)
    }

    /// Mounts the tree at `root` in a container that was started without one.
    pub(super) fn attach(&self, root: &Path) -> io::Result<()> {
        let gofer = self.gofer.and_then(|index| self.processes.get(index));
        let gofer = gofer.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "pid of the gofer is unknown")
        })?;
        tree::attach_to_running(root, gofer)
    }

    /// Sets the limits of the container as a whole.
    pub(super) fn limit(&mut self, limits: &Resources) -> Result<()> {
        let Some(groups) = self.groups.as_mut().and_then(Arc::get_mut) else {
            return Ok(());
        };
        // Processes are limited inside the container: on the host, the threads of the gVisor kernel
        // would count.
        let outside = Resources {
            pids: None,
            ..limits.clone()
        };
        groups
            .limit(&outside, MemoryScope::Session)
            .map_err(|error| Error::io("limit a container", error))
    }

    /// Sets the limits and orders init to enter the tree. Init reports on the returned sockets.
    pub(super) fn enter(
        &mut self,
        limits: &Resources,
        hostname: &str,
        trust: Option<&Trust>,
    ) -> Result<[UnixStream; 2]> {
        self.limit(limits)?;
        if let Some(trust) = trust {
            self.bundle
                .write_trust(trust)
                .map_err(|error| Error::io("write the certificates of a session", error))?;
        }
        let order = EnterOrder {
            hostname: c_string("session_id", hostname)?,
            pids: limits.pids,
            mounts_trust: trust.is_some(),
            relays_dns: self.network.is_some(),
        };
        let sockets = self.take_sockets()?;
        send_frame(sockets[0].as_fd(), &order.encode(), &[])
            .map_err(|error| Error::io("talk to a container", error))?;
        Ok(sockets)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.processes
            .iter()
            .all(|process| process.is_alive().unwrap_or(false))
    }

    pub(super) const fn groups(&self) -> Option<&Arc<SessionLease>> {
        self.groups.as_ref()
    }

    /// Returns the directory of named pipes.
    pub(super) fn pipes(&self) -> PipeDirectory {
        PipeDirectory::new(self.bundle.pipes(), PIPES)
    }

    /// Runs a `runsc` command on the container.
    pub(super) fn call(&self, runsc: &Runsc, verb: &str) -> Result<()> {
        runsc.call(
            &self.bundle.state(),
            Call {
                verb,
                arguments: vec![OsStr::new(&self.id)],
                ..Call::default()
            },
        )
    }

    fn kill_processes(&self) -> io::Result<()> {
        self.processes.iter().try_for_each(HostProcess::kill)
    }

    /// Kills the container and removes its directory. Idempotent.
    pub(super) fn destroy(&self) -> io::Result<()> {
        if let Some(groups) = &self.groups {
            groups.kill()?;
            groups.wait_until_empty()?;
        }
        self.kill_processes()?;
        self.bundle.remove()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Err(error) = self.destroy() {
            tracing::warn!(container = self.id, %error, "could not destroy a container");
        }
    }
}

/// Opens `cgroup.procs` of all groups that a process of the container enters.
fn procs_of(groups: &SessionGroups) -> io::Result<Vec<OwnedFd>> {
    let mut procs = groups.v1_procs()?;
    procs.push(groups.guest_procs()?);
    Ok(procs)
}

/// Reads the gofer's pid from the state of `runsc`. `None` if this version does not record it.
fn gofer_in(state: &Path) -> Option<i32> {
    let mut files = fs::read_dir(state).ok()?.flatten();
    let file = files.find(|entry| entry.path().extension().is_some_and(|kind| kind == "state"))?;
    let state: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
    state.get("goferPid")?.as_i64()?.try_into().ok()
}

fn failed(error: io::Error) -> Error {
    Error::io("start a container", error)
}
