//! Running commands in a session.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sandbar_core::{ByteCount, ExecSpec, Result, SessionId};
use sandbar_runtime::RunningCommand;

use super::Session;
use crate::{
    Host,
    engine::Engine,
    network,
    process::Run,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// Starts a command. Dropping the returned value kills it with everything it started.
    pub async fn exec(&self, id: &SessionId, spec: ExecSpec) -> Result<RunningCommand> {
        let target = id.clone();
        let call = Call::on(id, Verb::Exec).with("argv", spec.argv.clone());
        let call = spec
            .user
            .clone()
            .into_iter()
            .fold(call, |call, user| call.with("user", user));
        self.run(call, move |engine| engine.exec(&target, spec))
            .await
    }
}

impl Engine {
    fn exec(&self, id: &SessionId, spec: ExecSpec) -> Result<RunningCommand> {
        spec.validate()?;
        self.runtime.admit(&spec.resources, None)?;
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared()?;
        let record = self.active(id)?;
        self.start_counted(&session, &record, spec)
    }

    /// Starts a command that counts as active and as a use of the session while it runs. The caller
    /// holds a shared entry.
    pub(super) fn start_counted(
        &self,
        session: &Session,
        record: &SessionRecord,
        spec: ExecSpec,
    ) -> Result<RunningCommand> {
        let mut command = self
            .start_command(session, record, spec, CommandLimits::Apply)?
            .command;
        self.count_command(session, &mut command);
        Ok(command)
    }

    /// Counts a command as active, and as a use of its session, until it is dropped.
    pub(super) fn count_command(&self, session: &Session, command: &mut RunningCommand) {
        command.hold((
            ActiveCommand::count(&self.active_commands),
            session.activity.hold(),
        ));
    }

    /// Starts a command in the box of a session, as the user and with the environment and limits of
    /// its spec, session and host. The caller holds a shared entry.
    pub(super) fn start_command(
        &self,
        session: &Session,
        record: &SessionRecord,
        mut spec: ExecSpec,
        limits: CommandLimits,
    ) -> Result<Run> {
        spec.env = self.environment(record, spec.env)?;
        spec.resources = spec
            .resources
            .or(&record.resources)
            .or(&self.defaults.resources);
        if limits == CommandLimits::LiftTimeAndOutput {
            spec.resources.wall_time = None;
            spec.resources.output = Some(ByteCount(u64::MAX));
        }
        let user = spec
            .user
            .as_deref()
            .map(|user| self.account(session, user))
            .transpose()?;
        let sandbox = session.sandbox(self, record)?;
        let command = sandbox.exec_as(spec, user.as_ref())?;
        Ok(Run { command, sandbox })
    }

    /// Merges environment variables. The call takes precedence over the session, the session over
    /// its base, and the base over what the host sets for the network.
    fn environment(
        &self,
        record: &SessionRecord,
        of_call: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>> {
        let open = record.network.as_ref().filter(|policy| self.opens(policy));
        let of_network = |policy| network::variables(policy, record.id.host_name());
        let mut env: BTreeMap<String, String> = open.into_iter().flat_map(of_network).collect();
        env.extend(self.storage.base(record.base_in_use())?.env);
        env.extend(record.ground.iter().flat_map(|ground| ground.env.clone()));
        env.extend(record.env.clone());
        env.extend(of_call);
        Ok(env)
    }
}

/// Limits that apply to a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandLimits {
    /// All of them.
    Apply,
    /// All but wall time and output, which would end or mute a long-running process. Its supervisor
    /// enforces the wall time on the clock of the session, which stops while the session is paused.
    LiftTimeAndOutput,
}

/// Counts a command as active until it is dropped.
#[derive(Debug)]
struct ActiveCommand(Arc<AtomicU64>);

impl ActiveCommand {
    fn count(counter: &Arc<AtomicU64>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for ActiveCommand {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
