//! Commands of one session in a container.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, Resources, Result, UserAccount};
use sandbar_netns::{GateSockets, UdpGate};

use super::{
    checkpoint::CheckpointRecord,
    container::{Container, Workshop},
};
use crate::{
    BoxNetwork, Dialed, ExecSpec, RunningCommand, Sandbox, SandboxSpec, SandboxStats, boxed::BoxSandbox,
    cgroup::SessionLease,
};

#[derive(Debug)]
pub(super) struct GvisorSandbox {
    commands: BoxSandbox,
    groups: Option<Arc<SessionLease>>,
    inner: Mutex<Inner>,
    workshop: Arc<Workshop>,
    /// The mounted tree of the session.
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
        workshop: Arc<Workshop>,
        spec: &SandboxSpec<'_>,
    ) -> Self {
        Self {
            commands,
            groups: container.groups().cloned(),
            inner: Mutex::new(Inner { container, is_frozen: false }),
            workshop,
            root: spec.root.to_owned(),
            limits: spec.resources.clone(),
            network: spec.network,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host sees one thing, the container, and cannot limit a command in it.
    fn refuse_own_limits(&self, wishes: &Resources) -> Result<()> {
        let differing = [
            ("resources.cpus", wishes.cpus.is_some() && wishes.cpus != self.limits.cpus),
            ("resources.memory", wishes.memory.is_some() && wishes.memory != self.limits.memory),
            ("resources.pids", wishes.pids.is_some() && wishes.pids != self.limits.pids),
        ];
        match differing.into_iter().find(|(_, differs)| *differs) {
            Some((field, _)) => {
                Err(Error::invalid(field, "runtime `gvisor` limits sessions as a whole, not single commands")
                    .with_hint("set it for the session, or use runtime `native`"))
            }
            None => Ok(()),
        }
    }

    /// A container keeps the network it was started with.
    fn refuse_if_closed(&self) -> Result<()> {
        match self.network {
            BoxNetwork::Gated => Ok(()),
            BoxNetwork::Closed => Err(Error::new(
                ErrorCode::InvalidState,
                "its box was started without a network, and runtime `gvisor` cannot give it one while it runs",
            )
            .with_hint("stop the session and start it again, or give it a network from the start")),
        }
    }

    /// The cgroups stop the kernel in user space too, in a hundredth of the time `runsc` takes.
    fn set_frozen(&self, inner: &mut Inner, frozen: bool) -> Result<()> {
        if inner.is_frozen == frozen {
            return Ok(());
        }
        match (&self.groups, frozen) {
            (Some(_), true) => self.commands.freeze()?,
            (Some(_), false) => self.commands.thaw()?,
            (None, true) => inner.container.call(&self.workshop.runsc, "pause")?,
            (None, false) => inner.container.call(&self.workshop.runsc, "resume")?,
        }
        inner.is_frozen = frozen;
        Ok(())
    }

    /// This `runsc` ends what it has written, and its own way to go on afterwards loses the sockets and pipes of the
    /// container; so the box is started from its image here, while its commands and who talks to them notice nothing.
    fn save(
        &self,
        container: &mut Container,
        directory: &Path,
        meanwhile: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let runsc = &self.workshop.runsc;
        fs::create_dir_all(directory).map_err(|error| Error::io(format!("make `{}`", directory.display()), error))?;
        let mut copied = Ok(());
        self.commands.relocate(|numbers| {
            let record = CheckpointRecord::new(&runsc.version, numbers);
            record.write(directory).map_err(|error| Error::io("describe a checkpoint", error))?;
            container.save(runsc, directory)?;
            copied = meanwhile();
            container.restore(runsc, directory, &self.root)
        })?;
        copied
    }
}

/// Connections are the host kernel's, and so in no image.
pub(super) fn gated_boxes_stay() -> Error {
    Error::new(ErrorCode::InvalidState, "runtime `gvisor` cannot write a session to disk while it has a network")
        .with_hint("keep its files only, or close its network and start it again")
}

impl Sandbox for GvisorSandbox {
    fn exec_as(&self, spec: ExecSpec, user: Option<&UserAccount>) -> Result<RunningCommand> {
        self.refuse_own_limits(&spec.resources)?;
        self.commands.exec_as(spec, user)
    }

    fn dial(&self, port: u16, patience: Duration) -> Result<Dialed> {
        self.commands.dial(port, patience)
    }

    fn open_gate(&self, udp_ports: &[u16]) -> Result<GateSockets> {
        self.refuse_if_closed()?;
        self.commands.open_gate(udp_ports)
    }

    fn reopen_udp(&self, udp_ports: &[u16]) -> Result<Vec<UdpGate>> {
        self.refuse_if_closed()?;
        self.commands.reopen_udp(udp_ports)
    }

    fn cgroup(&self) -> Option<PathBuf> {
        self.commands.cgroup()
    }

    fn is_alive(&self) -> bool {
        // Without its gofer a container runs on and reaches no file.
        self.commands.is_alive() && self.inner().container.is_alive()
    }

    fn freeze(&self) -> Result<()> {
        self.set_frozen(&mut self.inner(), true)
    }

    fn thaw(&self) -> Result<()> {
        self.set_frozen(&mut self.inner(), false)
    }

    fn stats(&self) -> Result<SandboxStats> {
        // What the host counts as processes are threads of the kernel in user space. Inside, refusals are not counted, and
        // nobody answers who is frozen.
        let is_frozen = self.inner().is_frozen;
        let processes = if is_frozen { None } else { self.commands.count_processes().ok() };
        Ok(SandboxStats { processes, refused_forks: None, ..self.commands.stats()? })
    }

    fn checkpoint(&self, directory: &Path, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.network == BoxNetwork::Gated {
            return Err(gated_boxes_stay());
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
        self.inner().container.end().map_err(|error| Error::io("end a container", error))
    }
}
