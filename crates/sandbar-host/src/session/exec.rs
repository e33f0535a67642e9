//! Running commands in a session.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sandbar_core::{ExecSpec, Result, SessionId};
use sandbar_runtime::RunningCommand;

use super::Session;
use crate::{
    Host,
    host::Inner,
    network,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// Starts a command. Dropping what is returned ends it, with everything it started.
    pub async fn exec(&self, id: &SessionId, spec: ExecSpec) -> Result<RunningCommand> {
        let target = id.clone();
        let call = Call::on(id, Verb::Exec).with("argv", spec.argv.clone());
        let call = spec.user.clone().into_iter().fold(call, |call, user| call.with("user", user));
        self.run(call, move |inner| inner.exec(&target, spec)).await
    }
}

impl Inner {
    fn exec(&self, id: &SessionId, spec: ExecSpec) -> Result<RunningCommand> {
        spec.validate()?;
        self.runtime.admit(&spec.resources, None)?;
        let session = self.session(id)?;
        let _entry = session.gate.enter_shared()?;
        let record = self.active(id)?;
        self.start_command(&session, &record, spec)
    }

    /// Starts a command in a session the caller has entered.
    pub(super) fn start_command(
        &self,
        session: &Session,
        record: &SessionRecord,
        mut spec: ExecSpec,
    ) -> Result<RunningCommand> {
        spec.env = self.environment(record, spec.env)?;
        spec.resources = spec.resources.or(&record.resources).or(&self.config.default_resources);
        let user = spec.user.as_deref().map(|user| self.account(session, user)).transpose()?;
        let mut command = session.sandbox(self, record)?.exec_as(spec, user.as_ref())?;
        command.hold((ActiveCommand::count(&self.active_commands), session.activity.hold()));
        Ok(command)
    }

    /// What a call says counts before what the session says, that before what its base asks for, and that before what the
    /// host tells about the network.
    pub(super) fn environment(
        &self,
        record: &SessionRecord,
        of_call: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>> {
        let open = record.network.as_ref().filter(|policy| self.opens(policy));
        let told = |policy| network::variables(policy, record.id.host_name());
        let mut env: BTreeMap<String, String> = open.into_iter().flat_map(told).collect();
        env.extend(self.storage.base(record.stands_on())?.env);
        env.extend(record.ground.iter().flat_map(|ground| ground.env.clone()));
        env.extend(record.env.clone());
        env.extend(of_call);
        Ok(env)
    }
}

/// Counts a command as long as somebody holds it.
#[derive(Debug)]
pub(super) struct ActiveCommand(Arc<AtomicU64>);

impl ActiveCommand {
    pub(super) fn count(counter: &Arc<AtomicU64>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for ActiveCommand {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
