//! What this machine and its `runsc` let gVisor boxes have.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use sandbar_core::{Capability, Error, NetworkPolicy, OwnerMap, Resources, Result, RuntimeKind};

use super::{
    checkpoint::CheckpointRecord,
    container::{Container, Workshop},
    gvisor_sandbox::{GvisorSandbox, gated_boxes_stay},
    leftovers, probe,
    runsc::Runsc,
    warm_pool::WarmPool,
};
use crate::{
    BoxNetwork, Runtime, RuntimeFacts, Sandbox, SandboxSpec,
    boxed::{BoxNetworkHandle, BoxSandbox, CommandStreams, InitLink, Walls},
    cgroup::HostGroups,
};

/// What a host says about the boxes it wants.
#[derive(Clone, Debug)]
pub struct GvisorSettings {
    /// The cgroup of this host. Whatever an earlier host of the same name left running is ended.
    pub name: String,
    /// A directory nobody else uses, for what containers need while they run.
    pub directory: PathBuf,
    /// How many containers wait for a session. Each takes about 10 MiB.
    pub warm: usize,
    /// The program; searched on the `PATH` when absent.
    pub runsc: Option<PathBuf>,
}

impl GvisorSettings {
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), directory: directory.into(), warm: 1, runsc: None }
    }
}

/// Runs commands in boxes with a kernel of their own.
#[derive(Debug)]
pub struct GvisorRuntime {
    /// `None` when a container must have its tree from the start.
    pool: Option<WarmPool>,
    /// Of containers with a gate; from when somebody has asked for the first one.
    gated_pool: OnceLock<Option<WarmPool>>,
    warm: usize,
    workshop: Arc<Workshop>,
    isolation: String,
    facts: RuntimeFacts,
    /// Both are found out when somebody asks for the first time: it takes half a second.
    checkpoint: OnceLock<Capability>,
    network: OnceLock<Capability>,
}

impl GvisorRuntime {
    /// Finds out, by trying, what can be done here; an error when no container can be started.
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
            limits: groups.as_ref().map_or_else(Capability::no, HostGroups::limits),
            users: crate::runtime::users(),
            root_rights: Capability::no(NO_RIGHTS),
        };
        let isolation = describe(&runsc, groups.as_ref().err());
        let workshop = Arc::new(Workshop { runsc, directory, groups: groups.ok().map(Arc::new) });
        let mut runtime = Self {
            pool: None,
            gated_pool: OnceLock::new(),
            warm: settings.warm,
            workshop,
            isolation,
            facts,
            checkpoint: OnceLock::new(),
            network: OnceLock::new(),
        };
        if probe::late_trees(&runtime.workshop)? {
            let pool = WarmPool::open(Arc::clone(&runtime.workshop), BoxNetwork::Closed, settings.warm);
            runtime.pool = Some(pool.map_err(|error| Error::io("start the pool of containers", error))?);
        }
        tracing::info!(runtime = "gvisor", isolation = runtime.isolation, "runtime opened");
        Ok(runtime)
    }

    fn sandbox(&self, commands: BoxSandbox, container: Container, spec: &SandboxSpec<'_>) -> GvisorSandbox {
        GvisorSandbox::new(commands, container, Arc::clone(&self.workshop), spec)
    }

    fn container_for(&self, root: &Path, network: BoxNetwork) -> Result<Container> {
        let pool = match (&self.pool, network) {
            (pool, BoxNetwork::Closed) => pool.as_ref(),
            (None, BoxNetwork::Gated) => None,
            (Some(_), BoxNetwork::Gated) => self.gated_pool.get_or_init(|| self.open_gated_pool()).as_ref(),
        };
        let Some(pool) = pool else { return self.workshop.start(Some(root), network) };
        let container = pool.take()?;
        container.attach(root).map_err(|error| Error::io("put the tree into a container", error))?;
        Ok(container)
    }
}

impl GvisorRuntime {
    fn open_gated_pool(&self) -> Option<WarmPool> {
        WarmPool::open(Arc::clone(&self.workshop), BoxNetwork::Gated, self.warm)
            .inspect_err(|error| tracing::warn!(%error, "could not start the pool of containers with a gate"))
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
        self.checkpoint.get_or_init(|| probe::checkpoints(&self.workshop))
    }

    fn network(&self) -> &Capability {
        self.network.get_or_init(|| probe::networks(&self.workshop))
    }

    fn admit(&self, resources: &Resources, network: Option<&NetworkPolicy>) -> Result<()> {
        if network.is_some_and(|policy| !policy.is_closed()) {
            crate::runtime::admit_network(RuntimeKind::Gvisor, self.network(), network)?;
        }
        crate::runtime::admit_limits(RuntimeKind::Gvisor, &self.facts.limits, resources)
    }

    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        Ok(None)
    }

    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        crate::runtime::admit_rights(spec.rights, &self.facts.root_rights)?;
        let mut container = self.container_for(spec.root, spec.network)?;
        let link = InitLink::open(container.enter(spec.resources, spec.session.host_name(), spec.trust)?)?;
        let pipes = container.pipes();
        let network = container.take_network().map(BoxNetworkHandle::Linked);
        let (groups, streams) = (container.groups().cloned(), CommandStreams::Named(pipes));
        let commands = BoxSandbox::new(link, Walls::Guest, groups, streams, None, network);
        commands.prepare();
        Ok(Arc::new(self.sandbox(commands, container, spec)))
    }

    fn restore_sandbox(&self, spec: &SandboxSpec<'_>, directory: &Path) -> Result<Arc<dyn Sandbox>> {
        crate::runtime::admit_rights(spec.rights, &self.facts.root_rights)?;
        if spec.network == BoxNetwork::Gated {
            return Err(gated_boxes_stay());
        }
        let record = CheckpointRecord::read(directory, &self.workshop.runsc.version)?;
        let mut container = self.workshop.prepare(BoxNetwork::Closed)?;
        container.limit(spec.resources)?;
        let pipes = container.pipes();
        let failed = |error: io::Error| Error::io("make the pipes of a session", error);
        let adopted: Vec<_> =
            record.with_pipes.iter().map(|&number| pipes.adopt(number)).collect::<io::Result<_>>().map_err(failed)?;
        let link = InitLink::resume(container.restore(&self.workshop.runsc, directory, spec.root)?)?;
        let commands =
            BoxSandbox::new(link, Walls::Guest, container.groups().cloned(), CommandStreams::Named(pipes), None, None);
        commands.take_over(record.next_command, adopted).map_err(failed)?;
        Ok(Arc::new(self.sandbox(commands, container, spec)))
    }

    fn close(&self) -> Result<()> {
        for pool in [&self.pool, self.gated_pool.get().unwrap_or(&None)].into_iter().flatten() {
            pool.close();
        }
        match &self.workshop.groups {
            Some(groups) => groups.end().map_err(|error| Error::io("remove the host's cgroups", error)),
            None => Ok(()),
        }
    }
}

impl Drop for GvisorRuntime {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(error = error.chain(), "could not clean up after the runtime");
        }
    }
}

/// Why nobody in a container may more than others.
const NO_RIGHTS: &str =
    "containers of gVisor start with no new privileges, and not every version knows programs that set the user id";

fn describe(runsc: &Runsc, no_groups: Option<&String>) -> String {
    let mut text = format!(
        "gvisor: a kernel of its own in user space (runsc {}, platform {}) that no command can leave; no network but \
         a loopback, and a gate the host keeps where a policy opens it from the start; no capabilities, no new privileges",
        runsc.version, runsc.platform
    );
    if let Some(reason) = no_groups {
        text.push_str("; CPU, memory and process counts are not limited, since ");
        text.push_str(reason);
    }
    text
}
