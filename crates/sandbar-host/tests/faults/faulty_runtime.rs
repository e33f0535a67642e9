//! A real runtime with faults in it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sandbar_core::{
    Capability, NetworkPolicy, OwnerMap, Resources, Result, RuntimeKind, UserAccount,
};
use sandbar_netns::{NetnsListeners, UdpListener};
use sandbar_runtime::{
    Dialed, ExecSpec, RunningCommand, Runtime, RuntimeFacts, Sandbox, SandboxSpec, SandboxStats,
};

use crate::switchboard::Switchboard;

/// Puts the switchboard between the host and a runtime.
#[derive(Debug)]
pub(crate) struct FaultyRuntime {
    pub(crate) real: Arc<dyn Runtime>,
    pub(crate) faults: Arc<Switchboard>,
}

impl FaultyRuntime {
    fn sandbox(&self, real: Arc<dyn Sandbox>) -> Arc<dyn Sandbox> {
        Arc::new(FaultySandbox {
            real,
            faults: Arc::clone(&self.faults),
        })
    }
}

impl Runtime for FaultyRuntime {
    fn kind(&self) -> RuntimeKind {
        self.real.kind()
    }
    fn isolation(&self) -> &str {
        self.real.isolation()
    }
    fn facts(&self) -> &RuntimeFacts {
        self.real.facts()
    }
    fn checkpoint(&self) -> &Capability {
        self.real.checkpoint()
    }
    fn network(&self) -> &Capability {
        self.real.network()
    }
    fn admit(&self, resources: &Resources, network: Option<&NetworkPolicy>) -> Result<()> {
        self.faults
            .around("runtime admit", || self.real.admit(resources, network))
    }
    fn owners(&self) -> Result<Option<Arc<OwnerMap>>> {
        self.faults.around("runtime owners", || self.real.owners())
    }
    fn open_sandbox(&self, spec: &SandboxSpec<'_>) -> Result<Arc<dyn Sandbox>> {
        self.faults
            .around("runtime open_sandbox", || self.real.open_sandbox(spec))
            .map(|real| self.sandbox(real))
    }
    fn restore_sandbox(
        &self,
        spec: &SandboxSpec<'_>,
        directory: &Path,
    ) -> Result<Arc<dyn Sandbox>> {
        let restored = self.faults.around("runtime restore_sandbox", || {
            self.real.restore_sandbox(spec, directory)
        });
        restored.map(|real| self.sandbox(real))
    }
    fn close(&self) -> Result<()> {
        self.faults.around("runtime close", || self.real.close())
    }
}

#[derive(Debug)]
struct FaultySandbox {
    real: Arc<dyn Sandbox>,
    faults: Arc<Switchboard>,
}

impl Sandbox for FaultySandbox {
    fn exec_as(&self, spec: ExecSpec, user: Option<&UserAccount>) -> Result<RunningCommand> {
        self.faults
            .around("sandbox exec", || self.real.exec_as(spec, user))
    }
    fn dial(&self, port: u16, timeout: Duration) -> Result<Dialed> {
        self.faults
            .around("sandbox dial", || self.real.dial(port, timeout))
    }
    fn open_listeners(&self, udp_ports: &[u16]) -> Result<NetnsListeners> {
        self.faults.around("sandbox open_listeners", || {
            self.real.open_listeners(udp_ports)
        })
    }
    fn reopen_udp(&self, udp_ports: &[u16]) -> Result<Vec<UdpListener>> {
        self.faults
            .around("sandbox reopen_udp", || self.real.reopen_udp(udp_ports))
    }
    fn cgroup(&self) -> Option<PathBuf> {
        self.real.cgroup()
    }
    fn is_alive(&self) -> bool {
        self.faults
            .question("sandbox is_alive", || self.real.is_alive())
    }
    fn freeze(&self) -> Result<()> {
        self.faults
            .around_or("sandbox freeze", || self.real.freeze(), || Ok(()))
    }
    fn thaw(&self) -> Result<()> {
        self.faults.around("sandbox thaw", || self.real.thaw())
    }
    fn stats(&self) -> Result<SandboxStats> {
        self.faults.around("sandbox stats", || self.real.stats())
    }
    fn checkpoint(
        &self,
        directory: &Path,
        meanwhile: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.faults.around("sandbox checkpoint", || {
            self.real.checkpoint(directory, meanwhile)
        })
    }
    fn stop(&self) -> Result<()> {
        self.faults.around("sandbox stop", || self.real.stop())
    }
}
