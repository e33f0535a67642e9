//! What this machine lets native boxes have.

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
use sandbar_core::{Capability, Error, ErrorCode, NetworkPolicy, OwnerMap, Resources, Result, RuntimeKind};

use super::{
    landlock,
    launch::{Launch, Launched, furnish, launch},
    owners::OwnerPool,
    prepared_boxes::{PreparedBox, PreparedBoxes},
    spawner::Spawner,
};
use crate::{
    Runtime, RuntimeFacts, Sandbox, SandboxSpec, Trust,
    boxed::{BoxNetworkHandle, BoxSandbox, CommandStreams, Walls},
    cgroup::HostGroups,
    environment::text,
    protocol::{InitMode, RootPlace, UserPlace},
};

/// Runs commands in boxes made of Linux namespaces.
#[derive(Debug)]
pub struct NativeRuntime {
    spawner: Arc<Spawner>,
    groups: Option<Arc<HostGroups>>,
    /// `None` for an ordinary user, whose boxes have one owner.
    owners: Option<OwnerPool>,
    /// Not for an ordinary user, whose boxes need their tree first.
    prepared: Option<PreparedBoxes>,
    isolation: String,
    facts: RuntimeFacts,
    checkpoint: Capability,
    network: Capability,
}

impl NativeRuntime {
    /// Finds out, by trying, what can be done here; an error when no box can be made. `name` is the cgroup of this host;
    /// whatever an earlier host of the same name left running is ended.
    pub fn open(name: &str) -> Result<Self> {
        let groups = HostGroups::open(name);
        let spawner = Arc::new(Spawner::start().map_err(|error| Error::io("start the spawner", error))?);
        let groups = groups.and_then(|groups| groups.adopting(spawner.pid()));
        let ordinary = !rustix::process::geteuid().is_root();
        if let (Some(error), false) = (&spawner.limited, ordinary) {
            return Err(Error::new(ErrorCode::Unavailable, format!("native boxes cannot be made: {error}"))
                .with_field("container_runtime")
                .with_hint("let this process make mount namespaces (CAP_SYS_ADMIN), or choose another runtime"));
        }
        let owners = (!ordinary).then(|| OwnerPool::new(Arc::clone(&spawner), name));
        let facts = RuntimeFacts {
            pause: groups.as_ref().map_or_else(Capability::no, |_| Capability::Yes),
            limits: groups.as_ref().map_or_else(Capability::no, HostGroups::limits),
            users: crate::runtime::users(),
            root_rights: crate::runtime::users(),
        };
        let checkpoint = Capability::no("native boxes cannot write running processes to disk; gvisor can");
        let network = try_gate(&spawner, ordinary);
        let isolation = describe(ordinary, groups.as_ref().err());
        let groups = groups.ok().map(Arc::new);
        let prepared = (!ordinary).then(|| PreparedBoxes::new(Arc::clone(&spawner), groups.clone()));
        let runtime = Self { spawner, groups, owners, prepared, isolation, facts, checkpoint, network };
        runtime.probe()?;
        tracing::info!(runtime = "native", isolation = runtime.isolation, "runtime opened");
        Ok(runtime)
    }

    /// Makes a box and takes it down again, since nothing else shows that it can be done.
    fn probe(&self) -> Result<()> {
        let Some(owners) = &self.owners else { return Ok(()) };
        owners.lease().map(drop).map_err(|error| {
            Error::io("make a user namespace", error)
                .with_field("container_runtime")
                .with_hint("allow user namespaces (`sysctl user.max_user_namespaces`), or choose another runtime")
        })
    }

    /// Has boxes made for sessions to come and returns once they wait, or cannot be made. Without it they are made after
    /// the first session has come.
    pub fn warm_up(&self) {
        if let Some(prepared) = &self.prepared {
            prepared.warm_up();
        }
    }

    fn make(&self, spec: &SandboxSpec<'_>) -> Result<BoxSandbox> {
        let failed = |error: io::Error| Error::io(format!("make the sandbox of session `{}`", spec.session), error);
        let owners = match (&self.owners, &spec.owners) {
            (None, _) => None,
            (Some(_), Some(map)) => Some(Arc::clone(map)),
            (Some(pool), None) => Some(pool.unchanged().map_err(failed)?),
        };
        if let Some(prepared) = self.prepared.as_ref().and_then(PreparedBoxes::take) {
            match self.make_from(spec, owners.clone(), Some(prepared)) {
                Ok(sandbox) => return Ok(sandbox),
                // It may have just died. A reason that holds for another one too is told by that.
                Err(error) => tracing::debug!(error = error.chain(), "a prepared box could not be used"),
            }
        }
        self.make_from(spec, owners, None)
    }

    /// Puts a box over a tree: a prepared one, or a new one.
    fn make_from(
        &self,
        spec: &SandboxSpec<'_>,
        owners: Option<Arc<OwnerMap>>,
        prepared: Option<PreparedBox>,
    ) -> Result<BoxSandbox> {
        let failed = |error: io::Error| Error::io(format!("make the sandbox of session `{}`", spec.session), error);
        let no_groups = |error: io::Error| Error::io(format!("make the cgroups of session `{}`", spec.session), error);
        // In this order: a box ends when its sockets close, and its groups wait for its end.
        let (mut groups, sockets, network) = if let Some(PreparedBox { sockets, groups, network }) = prepared {
            (groups, Some(sockets), Some(network))
        } else {
            let groups = self.groups.as_ref().map(HostGroups::session).transpose().map_err(no_groups)?;
            // An ordinary user's box has one made with its users.
            let network = owners.as_ref().map(|_| self.spawner.network()).transpose().map_err(failed)?;
            (groups, None, network)
        };
        let first_owner = owners.as_ref().map_or(0, |map| map.first());
        if let Some(groups) = &mut groups {
            groups.limit(spec.resources).and_then(|()| groups.delegate(first_owner)).map_err(no_groups)?;
        }
        let tree = if owners.is_some() { Some(detached(spec.root).map_err(failed)?) } else { None };
        let wanted = Launch {
            mode: InitMode::Walled,
            root: if tree.is_some() { RootPlace::Tree } else { RootPlace::Directory },
            root_handle: tree,
            path: CString::new(spec.root.as_os_str().as_bytes()).unwrap_or_default(),
            user: if owners.is_some() { UserPlace::Passed } else { UserPlace::Caller },
            owners: owners.as_ref().map(|map| map.as_fd()),
            first_owner,
            devices: None,
            hostname: text("session_id", spec.session.host_name())?,
            trust: spec.trust.map(Trust::order).transpose()?,
            network: network.as_ref().map(AsFd::as_fd),
            rights: spec.rights,
            skip_pids: spec.skip_pids,
        };
        let Launched { link, namespaces } = match sockets {
            Some(sockets) => furnish(sockets, spec.session, groups.as_deref(), wanted)?,
            None => launch(&self.spawner, spec.session, groups.as_deref(), wanted)?,
        };
        let of_caller =
            namespaces.map(|namespaces| BoxNetworkHandle::OfCaller { spawner: Arc::clone(&self.spawner), namespaces });
        let network = network.map(BoxNetworkHandle::Namespace).or(of_caller);
        Ok(BoxSandbox::new(link, Walls::Namespaces, groups.map(Arc::new), CommandStreams::Passed, owners, network))
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
        crate::runtime::admit_network(RuntimeKind::Native, &self.network, network)?;
        crate::runtime::admit_limits(RuntimeKind::Native, &self.facts.limits, resources)
    }

    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        let lease = self.owners.as_ref().map(OwnerPool::lease).transpose();
        lease.map_err(|error| Error::io("find a free range of owners", error))
    }

    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        crate::runtime::admit_rights(spec.rights, &self.facts.root_rights)?;
        if spec.owners.is_none() {
            crate::runtime::admit_rights(spec.rights, &Capability::no("the owners of its files are not translated"))?;
        }
        Ok(Arc::new(self.make(spec)?))
    }

    fn close(&self) -> Result<()> {
        if let Some(prepared) = &self.prepared {
            prepared.close();
        }
        self.spawner.end();
        match &self.groups {
            Some(groups) => groups.end().map_err(|error| Error::io("remove the host's cgroups", error)),
            None => Ok(()),
        }
    }
}

impl Drop for NativeRuntime {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(error = error.chain(), "could not clean up after the runtime");
        }
    }
}

/// Opens a gate in a network made for it, since nothing else shows that it can be done.
fn try_gate(spawner: &Spawner, ordinary: bool) -> Capability {
    let tried = if ordinary {
        spawner.try_gate()
    } else {
        spawner
            .network()
            .and_then(|network| sandbar_netns::in_namespace(&network, || sandbar_netns::open_gate(&[])))
            .map(drop)
    };
    match tried {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!("the gate of a network cannot be opened: {error}")),
    }
}

/// The tree at `root` with everything mounted in it, as a mount of its own that is nowhere yet.
pub(crate) fn detached(root: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, root, flags)?)
}

fn describe(ordinary: bool, no_groups: Option<&String>) -> String {
    let mut text = "native: own process, mount, network, IPC, host name, time and cgroup namespaces, ".to_owned();
    text.push_str(if ordinary {
        "the caller as the only user"
    } else {
        "a private range of users, or root without any of its rights where the file system cannot translate owners"
    });
    text.push_str("; no network but a loopback, and a gate the host keeps where a policy opens it");
    text.push_str("; no capabilities and no new privileges, ");
    if !ordinary {
        text.push_str("or a few over its own files and users where root is given rights, ");
    }
    text.push_str("a seccomp allow-list");
    if landlock::version() >= 2 {
        text.push_str(", Landlock");
    }
    if let Some(reason) = no_groups {
        text.push_str("; CPU, memory and process counts are not limited, nothing can be frozen, and daemons that leave their process session outlive their command, since ");
        text.push_str(reason);
    }
    text
}
