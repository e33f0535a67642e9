//! The sandbox of one session in a container.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, MutexExt as _, Resources, Result, UserAccount};
use sandbar_netns::{NetnsListeners, UdpListener};

use super::{
    checkpoint::CheckpointRecord,
    container::{Container, ContainerFactory},
};
use crate::{
    BoxNetwork, Dialed, ExecSpec, RunningCommand, Sandbox, SandboxSpec, SandboxStats,
    cgroup::SessionLease, sandbox::BoxSandbox,
};

#[derive(Debug)]
pub(super) struct GvisorSandbox {
    commands: BoxSandbox,
    groups: Option<Arc<SessionLease>>,
    inner: Mutex<Inner>,
    factory: Arc<ContainerFactory>,
    /// Path of the session's mounted tree.
    root: PathBuf,
    limits: Resources,
    network: BoxNetwork,
}

#[derive(Debug)]
struct Inner {
    container: Container,
    is_frozen: bool,
}

impl GvisorSandbox {
    pub(super) fn new(
        commands: BoxSandbox,
        container: Container,
        factory: Arc<ContainerFactory>,
        spec: &SandboxSpec<'_>,
    ) -> Self {
        Self {
            commands,
            groups: container.groups().cloned(),
            inner: Mutex::new(Inner {
                container,
                is_frozen: false,
            }),
            factory,
            root: spec.root.to_owned(),
            limits: spec.resources.clone(),
            network: spec.network,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock_unpoisoned()
    }

    /// Rejects limits of a single command: the host's cgroups contain the container as a whole.
    fn reject_command_limits(&self, requested: &Resources) -> Result<()> {
        let differing = [
            (
                "resources.cpus",
                requested.cpus.is_some() && requested.cpus != self.limits.cpus,
            ),
            (
                "resources.memory",
                requested.memory.is_some() && requested.memory != self.limits.memory,
            ),
            (
                "resources.pids",
                requested.pids.is_some() && requested.pids != self.limits.pids,
            ),
        ];
        match differing.into_iter().find(|(_, differs)| *differs) {
            Some((field, _)) => Err(Error::invalid(
                field,
                "runtime `gvisor` limits sessions as a whole, not single commands",
            )
            .with_hint("set it for the session, or use runtime `native`")),
            None => Ok(()),
        }
    }

    /// Fails if the container was started without egress. Its network cannot be changed later.
    fn require_egress(&self) -> Result<()> {
        match self.network {
            BoxNetwork::Egress => Ok(()),
            BoxNetwork::Closed => Err(Error::new(
                ErrorCode::InvalidState,
                "session was started without a network, and runtime `gvisor` cannot add one while it runs",
            )
            .with_hint("stop the session and start it again, or give it a network from the start")),
        }
    }

    /// Freezes or thaws through the cgroups if possible, which stops the gVisor kernel in a
    /// hundredth of the time of `runsc pause`.
    fn set_frozen(&self, inner: &mut Inner, frozen: bool) -> Result<()> {
        if inner.is_frozen == frozen {
            return Ok(());
        }
        match (&self.groups, frozen) {
            (Some(_), true) => self.commands.freeze()?,
            (Some(_), false) => self.commands.thaw()?,
            (None, true) => inner.container.call(&self.factory.runsc, "pause")?,
            (None, false) => inner.container.call(&self.factory.runsc, "resume")?,
        }
        inner.is_frozen = frozen;
        Ok(())
    }

    /// Writes the container to `directory` and restarts it from there. `runsc checkpoint` ends the
    /// container, and its option to leave it running loses sockets and pipes. Commands and their
    /// callers notice only a pause.
    fn save(
        &self,
        container: &mut Container,
        directory: &Path,
        meanwhile: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let runsc = &self.factory.runsc;
        fs::create_dir_all(directory)
            .map_err(|error| Error::io(format!("create `{}`", directory.display()), error))?;
        let mut copied = Ok(());
        self.commands.relocate(|numbers| {
            let record = CheckpointRecord::new(&runsc.version, numbers);
            record
                .write(directory)
                .map_err(|error| Error::io("write the record of a checkpoint", error))?;
            container.save(runsc, directory)?;
            copied = meanwhile();
            container.restore(runsc, directory, &self.root)
        })?;
        copied
    }
}

/// Error for a checkpoint of a session with a network: its connections are not part of the image.
pub(super) fn no_checkpoint_with_network() -> Error {
    Error::new(
        ErrorCode::InvalidState,
        "runtime `gvisor` cannot write a session to disk while it has a network",
    )
    .with_hint("keep its files only, or close its network and start it again")
}

impl Sandbox for GvisorSandbox {
    fn exec_as(&self, spec: ExecSpec, user: Option<&UserAccount>) -> Result<RunningCommand> {
        self.reject_command_limits(&spec.resources)?;
        self.commands.exec_as(spec, user)
    }

    fn dial(&self, port: u16, timeout: Duration) -> Result<Dialed> {
        self.commands.dial(port, timeout)
    }

    fn open_listeners(&self, udp_ports: &[u16]) -> Result<NetnsListeners> {
        self.require_egress()?;
        self.commands.open_listeners(udp_ports)
    }

    fn reopen_udp(&self, udp_ports: &[u16]) -> Result<Vec<UdpListener>> {
        self.require_egress()?;
        self.commands.reopen_udp(udp_ports)
    }

    fn cgroup(&self) -> Option<PathBuf> {
        self.commands.cgroup()
    }

    fn is_alive(&self) -> bool {
        // Without its gofer, a container keeps running but cannot open files.
        self.commands.is_alive() && self.inner().container.is_alive()
    }

    fn freeze(&self) -> Result<()> {
        self.set_frozen(&mut self.inner(), true)
    }

    fn thaw(&self) -> Result<()> {
        self.set_frozen(&mut self.inner(), false)
    }

    fn stats(&self) -> Result<SandboxStats> {
        // The host's cgroups count threads of the gVisor kernel, so init counts the processes. It
        // cannot while frozen. gVisor does not count refused forks.
        let is_frozen = self.inner().is_frozen;
        let processes = if is_frozen {
            None
        } else {
            self.commands.count_processes().ok()
        };
        Ok(SandboxStats {
            processes,
            refused_forks: None,
            ..self.commands.stats()?
        })
    }

    fn checkpoint(
        &self,
        directory: &Path,
        meanwhile: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if self.network == BoxNetwork::Egress {
            return Err(no_checkpoint_with_network());
        }
        let mut inner = self.inner();
        let was_frozen = inner.is_frozen;
        self.set_frozen(&mut inner, false)?;
        let saved = self.save(&mut inner.container, directory, meanwhile);
        self.set_frozen(&mut inner, was_frozen)?;
        saved
    }

    fn stop(&self) -> Result<()> {
        self.commands.stop()?;
        self.inner()
            .container
            .destroy()
            .map_err(|error| Error::io("destroy a container", error))
    }
}
