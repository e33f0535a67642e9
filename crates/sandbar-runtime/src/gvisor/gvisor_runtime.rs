//! The gVisor runtime, and probes of what it can do on this machine.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use sandbar_core::{Capability, Error, NetworkPolicy, OwnerMap, Resources, Result, RuntimeKind};

use super::{
    checkpoint::CheckpointRecord,
    container::{Container, ContainerFactory},
    guest::INIT_USER,
    gvisor_sandbox::{GvisorSandbox, no_checkpoint_with_network},
    leftovers, probe,
    runsc::Runsc,
    warm_pool::WarmPool,
};
use crate::{
    BoxNetwork, Runtime, RuntimeFacts, Sandbox, SandboxSpec,
    admission::{self, admit_rights},
    cgroup::HostGroups,
    sandbox::{Boundary, BoxNetworkHandle, BoxParts, BoxSandbox, CommandStreams, InitLink},
};

/// Boundary around every gVisor box.
const BOUNDARY: Boundary = Boundary::GuestKernel {
    init_uid: INIT_USER,
};

/// Settings of the gVisor runtime.
#[derive(Clone, Debug)]
pub struct GvisorSettings {
    /// Name of this host's cgroup. What an earlier host of the same name left running is killed.
    pub name: String,
    /// Directory for the files of running containers. Must not be shared.
    pub directory: PathBuf,
    /// Number of containers that wait for a session. Each takes about 10 MiB.
    pub warm: usize,
    /// Path of the program. `None`: searched on the `PATH`.
    pub runsc: Option<PathBuf>,
}

impl GvisorSettings {
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            directory: directory.into(),
            warm: 1,
            runsc: None,
        }
    }
}

/// Runs commands in boxes with a kernel of their own.
#[derive(Debug)]
pub struct GvisorRuntime {
    /// `None` if a container must have its tree from the start.
    pool: Option<WarmPool>,
    /// Pool of containers with egress, opened for the first of them.
    egress_pool: OnceLock<Option<WarmPool>>,
    warm: usize,
    factory: Arc<ContainerFactory>,
    isolation: String,
    facts: RuntimeFacts,
    /// Both are probed on first use, which takes half a second.
    checkpoint: OnceLock<Capability>,
    network: OnceLock<Capability>,
}

impl GvisorRuntime {
    /// Opens the runtime and probes what works on this machine. Fails if no container can be
    /// started.
    pub fn open(settings: &GvisorSettings) -> Result<Self> {
        let runsc = Runsc::find(settings.runsc.as_deref())?;
        let groups = HostGroups::open(&settings.name);
        let directory = settings.directory.join("containers");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .and_then(|()| leftovers::clear(&directory))
            .map_err(|error| Error::io(format!("clear `{}`", directory.display()), error))?;
        let facts = RuntimeFacts {
            pause: Capability::Yes,
            limits: groups
                .as_ref()
                .map_or_else(Capability::no, HostGroups::limits),
            users: admission::users(),
            root_rights: Capability::no(NO_ROOT_RIGHTS),
        };
        let isolation = describe(&runsc, groups.as_ref().err());
        let factory = Arc::new(ContainerFactory {
            runsc,
            directory,
            groups: groups.ok().map(Arc::new),
        });
        let mut runtime = Self {
            pool: None,
            egress_pool: OnceLock::new(),
            warm: settings.warm,
            factory,
            isolation,
            facts,
            checkpoint: OnceLock::new(),
            network: OnceLock::new(),
        };
        if probe::late_trees(&runtime.factory)? {
            let pool = WarmPool::open(
                Arc::clone(&runtime.factory),
                BoxNetwork::Closed,
                settings.warm,
            );
            runtime.pool =
                Some(pool.map_err(|error| Error::io("start the pool of containers", error))?);
        }
        tracing::info!(
            runtime = "gvisor",
            isolation = runtime.isolation,
            "runtime opened"
        );
        Ok(runtime)
    }

    fn sandbox(
        &self,
        commands: BoxSandbox,
        container: Container,
        spec: &SandboxSpec<'_>,
    ) -> GvisorSandbox {
        GvisorSandbox::new(commands, container, Arc::clone(&self.factory), spec)
    }

    fn container_for(&self, root: &Path, network: BoxNetwork) -> Result<Container> {
        let pool = match (&self.pool, network) {
            (pool, BoxNetwork::Closed) => pool.as_ref(),
            (None, BoxNetwork::Egress) => None,
            (Some(_), BoxNetwork::Egress) => self
                .egress_pool
                .get_or_init(|| self.open_egress_pool())
                .as_ref(),
        };
        let Some(pool) = pool else {
            return self.factory.start(Some(root), network);
        };
        let container = pool.take()?;
        container
            .attach(root)
            .map_err(|error| Error::io("mount the tree in a container", error))?;
        Ok(container)
    }
}

impl GvisorRuntime {
    fn open_egress_pool(&self) -> Option<WarmPool> {
        WarmPool::open(Arc::clone(&self.factory), BoxNetwork::Egress, self.warm)
            .inspect_err(|error| tracing::warn!(%error, "could not start the pool of containers with egress"))
            .ok()
    }
}

impl Runtime for GvisorRuntime {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Gvisor
    }

    fn isolation(&self) -> &str {
        &self.isolation
    }

    fn facts(&self) -> &RuntimeFacts {
        &self.facts
    }

    fn checkpoint(&self) -> &Capability {
        self.checkpoint
            .get_or_init(|| probe::checkpoints(&self.factory))
    }

    fn network(&self) -> &Capability {
        self.network.get_or_init(|| probe::networks(&self.factory))
    }

    fn admit(&self, resources: &Resources, network: Option<&NetworkPolicy>) -> Result<()> {
        if network.is_some_and(|policy| !policy.is_closed()) {
            admission::admit_network(RuntimeKind::Gvisor, self.network(), network)?;
        }
        admission::admit_limits(RuntimeKind::Gvisor, &self.facts.limits, resources)
    }

    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        Ok(None)
    }

    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        admit_rights(spec.rights, &self.facts.root_rights)?;
        let mut container = self.container_for(spec.root, spec.network)?;
        let link = InitLink::open(container.enter(
            &spec.limits(),
            spec.session.host_name(),
            spec.trust,
        )?)?;
        let pipes = container.pipes();
        let network = container
            .take_network()
            .map(|network| Box::new(network) as Box<dyn BoxNetworkHandle>);
        let commands = BoxSandbox::new(BoxParts {
            link,
            boundary: BOUNDARY,
            groups: container.groups().cloned(),
            streams: CommandStreams::Named(pipes),
            owners: None,
            network,
        });
        commands.prepare_next();
        Ok(Arc::new(self.sandbox(commands, container, spec)))
    }

    fn restore_sandbox(
        &self,
        spec: &SandboxSpec<'_>,
        directory: &Path,
    ) -> Result<Arc<dyn Sandbox>> {
        admit_rights(spec.rights, &self.facts.root_rights)?;
        if spec.network == BoxNetwork::Egress {
            return Err(no_checkpoint_with_network());
        }
        let record = CheckpointRecord::read(directory, &self.factory.runsc.version)?;
        let mut container = self.factory.prepare(BoxNetwork::Closed)?;
        container.limit(&spec.limits())?;
        let pipes = container.pipes();
        let failed = |error: io::Error| Error::io("create the pipes of a session", error);
        let adopted: Vec<_> = record
            .with_pipes
            .iter()
            .map(|&number| pipes.adopt(number))
            .collect::<io::Result<_>>()
            .map_err(failed)?;
        let link =
            InitLink::resume(container.restore(&self.factory.runsc, directory, spec.root)?)?;
        let commands = BoxSandbox::new(BoxParts {
            link,
            boundary: BOUNDARY,
            groups: container.groups().cloned(),
            streams: CommandStreams::Named(pipes),
            owners: None,
            network: None,
        });
        commands
            .adopt_commands(record.next_command, adopted)
            .map_err(failed)?;
        Ok(Arc::new(self.sandbox(commands, container, spec)))
    }

    fn close(&self) -> Result<()> {
        for pool in [&self.pool, self.egress_pool.get().unwrap_or(&None)]
            .into_iter()
            .flatten()
        {
            pool.close();
        }
        match &self.factory.groups {
            Some(groups) => groups
                .kill_and_remove()
                .map_err(|error| Error::io("remove the host's cgroups", error)),
            None => Ok(()),
        }
    }
}

impl Drop for GvisorRuntime {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(error = error.chain(), "could not clean up the runtime");
        }
    }
}

/// Reason why root in a container has no rights of its own.
const NO_ROOT_RIGHTS: &str = "gVisor containers start with no_new_privs, and not every version supports set-user-id programs";

fn describe(runsc: &Runsc, no_groups: Option<&String>) -> String {
    let mut text = format!(
        "gvisor: a kernel of its own in user space (runsc {}, platform {}) ; no network but \
         loopback and, if the policy opens it from the start, the host's egress gateway; no capabilities, no new privileges",
        runsc.version, runsc.platform
    );
    if let Some(reason) = no_groups {
        text.push_str("; CPU, memory and process counts are not limited, because ");
        text.push_str(reason);
    }
    text
}
