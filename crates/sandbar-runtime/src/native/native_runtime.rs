//! The native runtime, and probes of what it can do on this machine.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::CWD,
    mount::{OpenTreeFlags, open_tree},
};
use sandbar_core::{
    ByteCount, Capability, Error, ErrorCode, NetworkPolicy, OwnerMap, Resources, Result,
    RuntimeKind,
};

use super::{
    box_network::{CallerNetwork, NamespaceNetwork},
    landlock,
    launch::{Launch, Launched, assign, launch},
    owners::OwnerPool,
    prepared_boxes::{PreparedBox, PreparedBoxes},
    spawner::Spawner,
    trust_store,
};
use crate::{
    Runtime, RuntimeFacts, Sandbox, SandboxSpec,
    admission::{self, admit_rights},
    cgroup::HostGroups,
    environment::c_string,
    protocol::{BoxRoot, BoxUsers, InitMode},
    sandbox::{Boundary, BoxNetworkHandle, BoxParts, BoxSandbox, CommandStreams},
};

/// Runs commands in boxes made of Linux namespaces.
#[derive(Debug)]
pub struct NativeRuntime {
    spawner: Arc<Spawner>,
    groups: Option<Arc<HostGroups>>,
    /// `None` on an unprivileged host, whose boxes have one user.
    owners: Option<OwnerPool>,
    /// `None` on an unprivileged host, whose boxes need their tree from the start.
    prepared: Option<PreparedBoxes>,
    isolation: String,
    facts: RuntimeFacts,
    checkpoint: Capability,
    network: Capability,
}

impl NativeRuntime {
    /// Opens the runtime and probes what works on this machine. Fails if no box can be created.
    /// `name` is the cgroup of this host; what an earlier host of the same name left running is
    /// killed.
    pub fn open(name: &str) -> Result<Self> {
        let groups = HostGroups::open(name);
        let spawner =
            Arc::new(Spawner::start().map_err(|error| Error::io("start the spawner", error))?);
        let groups = groups.and_then(|groups| groups.with_spawner(spawner.pid()));
        let is_unprivileged = !rustix::process::geteuid().is_root();
        if let (Some(error), false) = (&spawner.no_mounts, is_unprivileged) {
            return Err(Error::new(
                ErrorCode::Unavailable,
                format!("native boxes cannot be created: {error}"),
            )
            .with_field("container_runtime")
            .with_hint(
                "run the host with CAP_SYS_ADMIN so that it can create mount namespaces, or choose another runtime",
            ));
        }
        let owners = (!is_unprivileged).then(|| OwnerPool::new(Arc::clone(&spawner), name));
        let facts = RuntimeFacts {
            pause: groups
                .as_ref()
                .map_or_else(Capability::no, |_| Capability::Yes),
            limits: groups
                .as_ref()
                .map_or_else(Capability::no, HostGroups::limits),
            users: admission::users(),
            root_rights: admission::users(),
        };
        let checkpoint =
            Capability::no("runtime `native` cannot write running processes to disk; `gvisor` can");
        let network = probe_listeners(&spawner, is_unprivileged);
        let isolation = describe(is_unprivileged, groups.as_ref().err());
        let groups = groups.ok().map(Arc::new);
        let prepared =
            (!is_unprivileged).then(|| PreparedBoxes::new(Arc::clone(&spawner), groups.clone()));
        let runtime = Self {
            spawner,
            groups,
            owners,
            prepared,
            isolation,
            facts,
            checkpoint,
            network,
        };
        runtime.probe()?;
        tracing::info!(
            runtime = "native",
            isolation = runtime.isolation,
            "runtime opened"
        );
        Ok(runtime)
    }

    /// Tests whether user namespaces can be created, by creating one.
    fn probe(&self) -> Result<()> {
        let Some(owners) = &self.owners else {
            return Ok(());
        };
        owners.lease().map(drop).map_err(|error| {
            Error::io("create a user namespace", error)
                .with_field("container_runtime")
                .with_hint("allow user namespaces (`sysctl user.max_user_namespaces`), or choose another runtime")
        })
    }

    /// Fills the pool of prepared boxes and returns when it is full, or a box could not be created.
    /// Otherwise the pool is filled after the first session has started.
    pub fn warm_up(&self) {
        if let Some(prepared) = &self.prepared {
            prepared.warm_up();
        }
    }

    fn create(&self, spec: &SandboxSpec<'_>) -> Result<BoxSandbox> {
        let failed = |error: io::Error| {
            Error::io(
                format!("create the sandbox of session `{}`", spec.session),
                error,
            )
        };
        let owners = match (&self.owners, &spec.owners) {
            (None, _) => None,
            (Some(_), Some(map)) => Some(Arc::clone(map)),
            (Some(pool), None) => Some(pool.unchanged().map_err(failed)?),
        };
        if let Some(prepared) = self.prepared.as_ref().and_then(PreparedBoxes::take) {
            match self.create_from(spec, owners.clone(), Some(prepared)) {
                Ok(sandbox) => return Ok(sandbox),
                // The prepared box may have died. Any other cause fails the new box as well.
                Err(error) => {
                    tracing::debug!(error = error.chain(), "a prepared box could not be used");
                }
            }
        }
        self.create_from(spec, owners, None)
    }

    /// Creates the box of a session from a prepared box, or a new one.
    fn create_from(
        &self,
        spec: &SandboxSpec<'_>,
        owners: Option<Arc<OwnerMap>>,
        prepared: Option<PreparedBox>,
    ) -> Result<BoxSandbox> {
        let failed = |error: io::Error| {
            Error::io(
                format!("create the sandbox of session `{}`", spec.session),
                error,
            )
        };
        let no_groups = |error: io::Error| {
            Error::io(
                format!("create the cgroups of session `{}`", spec.session),
                error,
            )
        };
        // Dropped in reverse order: closing the sockets ends the box, and dropping the cgroups
        // waits for its end.
        let (mut groups, sockets, network) = if let Some(PreparedBox {
            sockets,
            groups,
            network,
        }) = prepared
        {
            (groups, Some(sockets), Some(network))
        } else {
            let groups = self
                .groups
                .as_ref()
                .map(HostGroups::session)
                .transpose()
                .map_err(no_groups)?;
            // On an unprivileged host the box is forked into a new one.
            let network = owners
                .as_ref()
                .map(|_| self.spawner.network())
                .transpose()
                .map_err(failed)?;
            (groups, None, network)
        };
        let first_owner = owners.as_ref().map_or(0, |map| map.first());
        if let Some(groups) = &mut groups {
            groups
                .limit(&spec.limits(), spec.memory_scope())
                .and_then(|()| groups.delegate(first_owner))
                .map_err(no_groups)?;
        }
        let tree = if owners.is_some() {
            Some(clone_tree(spec.root).map_err(failed)?)
        } else {
            None
        };
        let visible = groups
            .as_ref()
            .map_or_else(Resources::default, |groups| groups.enforced());
        let wanted = Launch {
            mode: InitMode::Native,
            root: if tree.is_some() {
                BoxRoot::Mount
            } else {
                BoxRoot::Directory
            },
            root_handle: tree,
            path: CString::new(spec.root.as_os_str().as_bytes()).unwrap_or_default(),
            user: if owners.is_some() {
                BoxUsers::Namespace
            } else {
                BoxUsers::Caller
            },
            owners: owners.as_ref().map(|map| map.as_fd()),
            first_owner,
            devices: None,
            hostname: c_string("session_id", spec.session.host_name())?,
            trust: spec.trust.map(trust_store::order).transpose()?,
            network: network.as_ref().map(AsFd::as_fd),
            rights: spec.rights,
            skip_pids: spec.skip_pids,
            visible_memory: visible.memory.map(ByteCount::get),
            visible_cpus: visible.cpus.map(whole_cpus),
        };
        let Launched { link, namespaces } = match sockets {
            Some(sockets) => assign(sockets, spec.session, groups.as_deref(), wanted)?,
            None => launch(&self.spawner, spec.session, groups.as_deref(), wanted)?,
        };
        let network: Option<Box<dyn BoxNetworkHandle>> = match (network, namespaces) {
            (Some(network), _) => Some(Box::new(NamespaceNetwork(network))),
            (None, Some(namespaces)) => Some(Box::new(CallerNetwork {
                spawner: Arc::clone(&self.spawner),
                namespaces,
            })),
            (None, None) => None,
        };
        Ok(BoxSandbox::new(BoxParts {
            link,
            boundary: Boundary::Namespaces,
            groups: groups.map(Arc::new),
            streams: CommandStreams::Passed,
            owners,
            network,
        }))
    }
}

impl Runtime for NativeRuntime {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Native
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
        admission::admit_network(RuntimeKind::Native, &self.network, network)?;
        admission::admit_limits(RuntimeKind::Native, &self.facts.limits, resources)
    }

    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        let lease = self.owners.as_ref().map(OwnerPool::lease).transpose();
        lease.map_err(|error| Error::io("lease a uid range", error))
    }

    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        admit_rights(spec.rights, &self.facts.root_rights)?;
        if spec.owners.is_none() {
            admit_rights(
                spec.rights,
                &Capability::no("the file system of the session does not support idmapped mounts"),
            )?;
        }
        Ok(Arc::new(self.create(spec)?))
    }

    fn close(&self) -> Result<()> {
        if let Some(prepared) = &self.prepared {
            prepared.close();
        }
        self.spawner.end();
        match &self.groups {
            Some(groups) => groups
                .kill_and_remove()
                .map_err(|error| Error::io("remove the host's cgroups", error)),
            None => Ok(()),
        }
    }
}

impl Drop for NativeRuntime {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(error = error.chain(), "could not clean up the runtime");
        }
    }
}

/// Tests whether netns listeners can be opened, by opening some in a new network namespace.
fn probe_listeners(spawner: &Spawner, is_unprivileged: bool) -> Capability {
    let tried = if is_unprivileged {
        spawner.probe_listeners()
    } else {
        spawner
            .network()
            .and_then(|network| {
                sandbar_netns::in_namespace(&network, || sandbar_netns::open_listeners(&[]))
            })
            .map(drop)
    };
    match tried {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!("netns listeners cannot be opened: {error}")),
    }
}

/// Clones the tree at `root` with everything mounted below it, as a detached mount.
pub(crate) fn clone_tree(root: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, root, flags)?)
}

/// Rounds a CPU limit up to whole CPUs.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped first"
)]
fn whole_cpus(cpus: f64) -> u64 {
    cpus.ceil().clamp(1.0, 1e6) as u64
}

fn describe(is_unprivileged: bool, no_groups: Option<&String>) -> String {
    let mut text =
        "native: own process, mount, network, IPC, host name, time and cgroup namespaces, "
            .to_owned();
    text.push_str(if is_unprivileged {
        "the caller as the only user"
    } else {
        "a private range of users, or uid 0 without capabilities if the file system has no idmapped mounts"
    });
    text.push_str(
        "; no network but loopback and, if the policy opens it, the host's egress gateway",
    );
    text.push_str("; no capabilities and no new privileges, ");
    if !is_unprivileged {
        text.push_str("or a few over its own files and users with root rights `own`, ");
    }
    text.push_str("a seccomp allow-list");
    if landlock::version() >= 2 {
        text.push_str(", Landlock");
    }
    if let Some(reason) = no_groups {
        text.push_str("; CPU, memory and process counts are not limited, nothing can be frozen, and daemons that leave their process session outlive their command, because ");
        text.push_str(reason);
    }
    text
}
