//! Commands of one session in a container.

use std::sync::Arc;

use sandbar_core::{Error, Resources, Result};

use super::container::{Container, Workshop};
use crate::{ExecSpec, RunningCommand, Sandbox, SandboxStats, boxed::BoxSandbox};

#[derive(Debug)]
pub(super) struct GvisorSandbox {
    commands: BoxSandbox,
    container: Container,
    workshop: Arc<Workshop>,
    limits: Resources,
}

impl GvisorSandbox {
    pub(super) const fn new(
        commands: BoxSandbox,
        container: Container,
        workshop: Arc<Workshop>,
        limits: Resources,
    ) -> Self {
        Self { commands, container, workshop, limits }
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
}

impl Sandbox for GvisorSandbox {
    fn exec(&self, spec: ExecSpec) -> Result<RunningCommand> {
        self.refuse_own_limits(&spec.resources)?;
        self.commands.exec(spec)
    }

    fn is_alive(&self) -> bool {
        self.commands.is_alive()
    }

    fn freeze(&self) -> Result<()> {
        // The cgroups stop the kernel in user space too, in a hundredth of the time.
        if self.container.groups().is_some() {
            self.commands.freeze()
        } else {
            self.container.call(&self.workshop.runsc, "pause")
        }
    }

    fn thaw(&self) -> Result<()> {
        if self.container.groups().is_some() {
            self.commands.thaw()
        } else {
            self.container.call(&self.workshop.runsc, "resume")
        }
    }

    fn stats(&self) -> Result<SandboxStats> {
        // What the host counts as processes are threads of the kernel in user space.
        Ok(SandboxStats { processes: None, refused_forks: None, ..self.commands.stats()? })
    }

    fn stop(&self) -> Result<()> {
        self.commands.stop()?;
        self.container.end().map_err(|error| Error::io("end a container", error))
    }
}
