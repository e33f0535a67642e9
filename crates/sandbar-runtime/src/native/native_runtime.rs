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
use sandbar_core::{Capability, Error, ErrorCode, NetworkAccess, OwnerMap, Resources, Result, RuntimeKind, SessionId};

use super::{
    landlock,
    launch::{Launch, launch},
    owners::OwnerPool,
    spawner::Spawner,
};
use crate::{
    Runtime, RuntimeFacts, Sandbox, SandboxSpec,
    boxed::{BoxSandbox, CommandStreams, Walls},
    cgroup::{HostGroups, SessionLease},
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
    isolation: String,
    facts: RuntimeFacts,
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
            checkpoint: Capability::no("native boxes cannot write running processes to disk; gvisor can"),
            limits: groups.as_ref().map_or_else(Capability::no, HostGroups::limits),
        };
        let isolation = describe(ordinary, groups.as_ref().err());
        let runtime = Self { spawner, groups: groups.ok().map(Arc::new), owners, isolation, facts };
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

    fn session_groups(&self, spec: &SandboxSpec<'_>, owner: u32) -> Result<Option<SessionLease>> {
        let Some(groups) = &self.groups else { return Ok(None) };
        let made = groups.session().and_then(|mut session| {
            session.limit(spec.resources)?;
            session.delegate(owner)?;
            Ok(session)
        });
        made.map(Some).map_err(|error| Error::io(format!("make the cgroups of session `{}`", spec.session), error))
    }

    fn make(&self, spec: &SandboxSpec<'_>) -> Result<BoxSandbox> {
        let failed = |error: io::Error| Error::io(format!("make the sandbox of session `{}`", spec.session), error);
        let (user, owners) = match (&self.owners, &spec.owners) {
            (None, _) => (UserPlace::Caller, None),
            (Some(_), Some(map)) => (UserPlace::Passed, Some(Arc::clone(map))),
            (Some(pool), None) => (UserPlace::Passed, Some(pool.unchanged().map_err(failed)?)),
        };
        let first_owner = owners.as_ref().map_or(0, |map| map.first());
        let groups = self.session_groups(spec, first_owner)?;
        let tree = if owners.is_some() { Some(detached(spec.root).map_err(failed)?) } else { None };
        let wanted = Launch {
            mode: InitMode::Walled,
            root: if tree.is_some() { RootPlace::Tree } else { RootPlace::Directory },
            root_handle: tree,
            path: CString::new(spec.root.as_os_str().as_bytes()).unwrap_or_default(),
            user,
            owners: owners.as_ref().map(|map| map.as_fd()),
            first_owner,
            devices: None,
            hostname: text("session_id", host_name(spec.session))?,
        };
        let link = launch(&self.spawner, spec.session, groups.as_deref(), wanted)?;
        Ok(BoxSandbox::new(link, Walls::Namespaces, groups.map(Arc::new), CommandStreams::Passed, owners))
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

    fn admit(&self, resources: &Resources, network: Option<NetworkAccess>) -> Result<()> {
        if network == Some(NetworkAccess::Full) {
            return Err(Error::invalid("network", "runtime `native` keeps every session off the network")
                .with_hint("leave it out, or use `none`"));
        }
        crate::runtime::admit_limits(RuntimeKind::Native, &self.facts.limits, resources)
    }

    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        let lease = self.owners.as_ref().map(OwnerPool::lease).transpose();
        lease.map_err(|error| Error::io("find a free range of owners", error))
    }

    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        Ok(Arc::new(self.make(spec)?))
    }

    fn close(&self) -> Result<()> {
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

/// The tree at `root` with everything mounted in it, as a mount of its own that is nowhere yet.
pub(crate) fn detached(root: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, root, flags)?)
}

/// A host name is at most 64 bytes long.
fn host_name(session: &SessionId) -> &str {
    let name = session.as_str();
    name.get(..64).unwrap_or(name)
}

fn describe(ordinary: bool, no_groups: Option<&String>) -> String {
    let mut text = "native: own process, mount, network, IPC, host name, time and cgroup namespaces, ".to_owned();
    text.push_str(if ordinary {
        "the caller as the only user"
    } else {
        "a private range of users, or root without any of its rights where the file system cannot translate owners"
    });
    text.push_str("; no capabilities, no new privileges, a seccomp allow-list");
    if landlock::version() >= 2 {
        text.push_str(", Landlock");
    }
    if let Some(reason) = no_groups {
        text.push_str("; CPU, memory and process counts are not limited, nothing can be frozen, and daemons that leave their process session outlive their command, since ");
        text.push_str(reason);
    }
    text
}
