//! What this machine lets the runtime without isolation do.

use std::sync::Arc;

use sandbar_core::{Capability, Error, NetworkAccess, OwnerMap, Resources, Result, RuntimeKind};

use super::{
    mount_namespace,
    none_sandbox::{NoneSandbox, View},
};
use crate::{Runtime, RuntimeFacts, Sandbox, SandboxSpec, cgroup::HostGroup};

/// Runs commands without isolation.
#[derive(Debug)]
pub struct NoneRuntime {
    groups: Option<Arc<HostGroup>>,
    own_tree: bool,
    isolation: String,
    facts: RuntimeFacts,
}

impl NoneRuntime {
    /// Finds out, by trying, what can be done here. `name` is the cgroup of this host; whatever an earlier host of the
    /// same name left running is ended.
    pub fn open(name: &str) -> Self {
        let tree = mount_namespace::probe();
        let groups = HostGroup::open(name);
        let mut isolation = match &tree {
            Ok(()) => "none: commands see the session's files as `/`".to_owned(),
            Err(error) => format!(
                "none: commands run on the host's own files with the session's directory as working directory, since mount \
                 namespaces are not permitted ({error})"
            ),
        };
        isolation.push_str(
            "; they share processes, network and user with the host, and CPU, memory and process counts are not limited",
        );
        if let Err(reason) = &groups {
            isolation
                .push_str("; daemons that leave their process session outlive their command and the sandbox, since ");
            isolation.push_str(reason);
        }
        tracing::info!(runtime = "none", %isolation, "runtime opened");
        let facts = RuntimeFacts {
            pause: Capability::no("not yet"),
            checkpoint: Capability::no("runtime `none` cannot write running processes to disk"),
            limits: Capability::no("runtime `none` limits nothing"),
        };
        Self { groups: groups.ok().map(Arc::new), own_tree: tree.is_ok(), isolation, facts }
    }
}

impl Runtime for NoneRuntime {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::None
    }

    fn isolation(&self) -> &str {
        &self.isolation
    }

    fn admit(&self, resources: &Resources, network: Option<NetworkAccess>) -> Result<()> {
        const HINT: &str = "leave it out, or use a runtime that isolates";
        let asked = [
            ("resources.cpus", "CPU time", resources.cpus.is_some()),
            ("resources.memory", "memory", resources.memory.is_some()),
            ("resources.pids", "the number of processes", resources.pids.is_some()),
        ];
        if let Some((field, what, _)) = asked.into_iter().find(|(_, _, asked)| *asked) {
            return Err(Error::invalid(field, format!("runtime `none` cannot limit {what}")).with_hint(HINT));
        }
        if network == Some(NetworkAccess::None) {
            return Err(Error::invalid("network", "runtime `none` cannot keep a session off the network")
                .with_hint("use `full`, leave it out, or use a runtime that isolates"));
        }
        Ok(())
    }

    fn facts(&self) -> &RuntimeFacts {
        &self.facts
    }

    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        Ok(None)
    }

    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        let (session, root) = (spec.session, spec.root);
        let failed = |what: &str, error: std::io::Error| Error::io(format!("{what} of session `{session}`"), error);
        let group = self.groups.as_ref().map(|groups| groups.session(session.as_str())).transpose();
        let group = group.map_err(|error| failed("make the cgroup", error))?;
        let view = if self.own_tree {
            View::OwnTree(mount_namespace::create(root).map_err(|error| failed("make the mount namespace", error))?)
        } else {
            View::HostTree(root.to_owned())
        };
        Ok(Arc::new(NoneSandbox::new(view, group)))
    }
}
