//! The runtime without isolation.

use std::{ffi::CString, io, path::Path, sync::Arc};

use rustix::fs::{CWD, Mode, OFlags, openat};
use sandbar_core::{
    Capability, Error, NetworkPolicy, OwnerMap, Resources, Result, RootRights, RuntimeKind,
};

use crate::{
    Runtime, RuntimeFacts, Sandbox, SandboxSpec,
    admission::{self, admit_rights},
    cgroup::HostGroups,
    native::{
        clone_tree,
        launch::{Launch, launch},
        spawner::Spawner,
    },
    protocol::{BoxRoot, BoxUsers, InitMode},
    sandbox::{Boundary, BoxParts, BoxSandbox, CommandStreams},
};

/// Runs commands without isolation.
#[derive(Debug)]
pub struct NoneRuntime {
    spawner: Spawner,
    groups: Option<Arc<HostGroups>>,
    isolation: String,
    facts: RuntimeFacts,
    checkpoint: Capability,
    network: Capability,
}

impl NoneRuntime {
    /// Opens the runtime and probes what works on this machine. `name` is the cgroup of this host;
    /// what an earlier host of the same name left running is killed.
    pub fn open(name: &str) -> Result<Self> {
        let groups = HostGroups::open(name);
        let spawner = Spawner::start().map_err(|error| Error::io("start the spawner", error))?;
        let groups = groups.and_then(|groups| groups.with_spawner(spawner.pid()));
        let mut isolation = match &spawner.no_mounts {
            None => "none: commands see the session's files as `/`".to_owned(),
            Some(error) => format!(
                "none: commands run on the host's own files with the session's directory as working directory, because mount \
                 namespaces are not permitted ({error})"
            ),
        };
        isolation.push_str("; they share processes, network and user with the host");
        if let Err(reason) = &groups {
            isolation
                .push_str("; CPU, memory and process counts are not limited, nothing can be frozen, and daemons that leave their process session outlive their command, because ");
            isolation.push_str(reason);
        }
        tracing::info!(runtime = "none", %isolation, "runtime opened");
        let facts = RuntimeFacts {
            pause: groups
                .as_ref()
                .map_or_else(Capability::no, |_| Capability::Yes),
            limits: groups
                .as_ref()
                .map_or_else(Capability::no, HostGroups::limits),
            users: admission::users(),
            root_rights: Capability::no(
                "with runtime `none`, root of a sandbox is the host's own user",
            ),
        };
        let checkpoint = Capability::no("runtime `none` cannot write running processes to disk");
        let network = Capability::no("runtime `none` shares the host's network");
        Ok(Self {
            spawner,
            groups: groups.ok().map(Arc::new),
            isolation,
            facts,
            checkpoint,
            network,
        })
    }
}

impl Runtime for NoneRuntime {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::None
    }

    fn isolation(&self) -> &str {
        &self.isolation
    }

    fn facts(&self) -> &RuntimeFacts {
        &self.facts
    }

    fn checkpoint(&self) -> &Capability {
        &self.checkpoint
    }

    fn network(&self) -> &Capability {
        &self.network
    }

    fn admit(&self, resources: &Resources, network: Option<&NetworkPolicy>) -> Result<()> {
        if network.is_some_and(|policy| policy.required && !policy.is_unrestricted()) {
            return Err(Error::invalid("network", "runtime `none` cannot enforce a network policy")
                .with_hint("use `full`, leave out `network`, set `required` to false, or use a runtime that isolates"));
        }
        admission::admit_limits(RuntimeKind::None, &self.facts.limits, resources)
    }

    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        Ok(None)
    }

    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        admit_rights(spec.rights, &self.facts.root_rights)?;
        let failed = |error: io::Error| {
            Error::io(
                format!("create the sandbox of session `{}`", spec.session),
                error,
            )
        };
        let groups = match &self.groups {
            Some(groups) => {
                let mut session = groups.session().map_err(failed)?;
                session
                    .limit(&spec.limits(), spec.memory_scope())
                    .map_err(failed)?;
                Some(session)
            }
            None => None,
        };
        let own_tree = self.spawner.no_mounts.is_none();
        let (root, devices) = if own_tree {
            (
                clone_tree(spec.root).map_err(failed)?,
                Some(clone_tree(Path::new("/dev")).map_err(failed)?),
            )
        } else {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            (
                openat(CWD, spec.root, flags, Mode::empty())
                    .map_err(|errno| failed(errno.into()))?,
                None,
            )
        };
        let wanted = Launch {
            mode: InitMode::Unisolated,
            root: if own_tree {
                BoxRoot::Mount
            } else {
                BoxRoot::Host
            },
            root_handle: Some(root),
            path: CString::default(),
            user: BoxUsers::Host,
            owners: None,
            first_owner: 0,
            devices,
            hostname: CString::default(),
            trust: None,
            network: None,
            rights: RootRights::Bare,
            skip_pids: 0,
            visible_memory: None,
            visible_cpus: None,
        };
        let link = launch(&self.spawner, spec.session, groups.as_deref(), wanted)?.link;
        let groups = groups.map(Arc::new);
        Ok(Arc::new(BoxSandbox::new(BoxParts {
            link,
            boundary: Boundary::None,
            groups,
            streams: CommandStreams::Passed,
            owners: None,
            network: None,
        })))
    }

    fn close(&self) -> Result<()> {
        self.spawner.end();
        match &self.groups {
            Some(groups) => groups
                .kill_and_remove()
                .map_err(|error| Error::io("remove the host's cgroups", error)),
            None => Ok(()),
        }
    }
}

impl Drop for NoneRuntime {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(error = error.chain(), "could not clean up the runtime");
        }
    }
}
