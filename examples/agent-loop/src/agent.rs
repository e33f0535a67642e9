//! The loop: get an action from the model, perform it, return the result to the model.

use std::io::{self, Write};

use sandbar_core::Resources;
use sandbar_environment::{
    EnvironmentError, ExecutionEnvironment, Feature, SnapshotId, ToolCallId, ToolProgress,
    ToolRequest, ToolResponse,
};
use serde_json::Value;

use crate::{
    Failure,
    model::{Action, Model, Observation},
};

/// Agent that performs the actions of a model in an environment.
pub(crate) struct Agent<'a, W> {
    pub(crate) environment: &'a dyn ExecutionEnvironment,
    pub(crate) log: W,
    calls: u32,
    last_turn: Option<SnapshotId>,
}

impl<'a, W: Write + Send> Agent<'a, W> {
    /// Creates an agent that logs its actions to `log`.
    pub(crate) fn new(environment: &'a dyn ExecutionEnvironment, log: W) -> Self {
        Self {
            environment,
            log,
            calls: 0,
            last_turn: None,
        }
    }

    /// Runs until the model has finished.
    pub(crate) async fn run(&mut self, model: &mut dyn Model) -> Result<(), Failure> {
        let mut seen = Observation::Nothing;
        loop {
            seen = match model.next(&seen) {
                Action::Say(words) => {
                    writeln!(self.log, "model: {words}")?;
                    Observation::Nothing
                }
                Action::Call { tool, params } => {
                    Observation::Result(self.call(tool, params).await?)
                }
                Action::EndTurn => {
                    self.end_turn().await?;
                    Observation::Nothing
                }
                Action::Rollback => self.rollback().await?,
                Action::Finish(words) => {
                    writeln!(self.log, "done: {words}")?;
                    return Ok(());
                }
            };
        }
    }

    /// Calls a tool and logs its progress, or its content if there was none.
    async fn call(&mut self, tool: &str, params: Value) -> Result<ToolResponse, Failure> {
        self.calls += 1;
        let about = ["cmd", "path"]
            .into_iter()
            .find_map(|name| params.get(name)?.as_str())
            .unwrap_or_default();
        writeln!(self.log, "call {tool}: {about}")?;
        let Value::Object(params) = params else {
            return Err("parameters are not an object".into());
        };
        // The environment runs a call id only once, so an interrupted call can be repeated.
        let call = ToolCallId::new(format!("call-{}", self.calls))?;
        let request = ToolRequest {
            tool: tool.to_owned(),
            call,
            params,
            resources: Resources::default(),
        };
        let (log, mut logged) = (&mut self.log, Ok(()));
        let mut silent = true;
        let mut on_progress = |progress: ToolProgress| {
            silent = false;
            logged = quote(log, &progress.content);
        };
        let result = self
            .environment
            .execute_tool(request, &mut on_progress)
            .await?;
        logged?;
        if silent {
            quote(&mut self.log, &result.content)?;
        }
        match result.exit_code {
            Some(code) if result.is_error => writeln!(self.log, "  failed with exit code {code}")?,
            None if result.is_error => writeln!(self.log, "  failed")?,
            _ => {}
        }
        Ok(result)
    }

    /// Ends a turn, with a snapshot if the environment supports them.
    async fn end_turn(&mut self) -> Result<(), Failure> {
        if !self.environment.capabilities().has(Feature::Snapshots) {
            writeln!(self.log, "turn over")?;
            return Ok(());
        }
        let snapshot = self.environment.turn_complete().await?;
        writeln!(self.log, "turn over: {}", snapshot.name)?;
        self.last_turn = Some(snapshot.id);
        Ok(())
    }

    /// Rolls back to the end of the last turn.
    async fn rollback(&mut self) -> Result<Observation, Failure> {
        let nowhere = SnapshotId::new("none");
        match self
            .environment
            .rollback(self.last_turn.as_ref().unwrap_or(&nowhere))
            .await
        {
            Ok(()) => {
                writeln!(self.log, "rolled back")?;
                Ok(Observation::Nothing)
            }
            Err(EnvironmentError::CapabilityNotSupported { feature, .. }) => {
                writeln!(self.log, "not rolled back: `{feature}` is not supported")?;
                Ok(Observation::RollbackNotSupported)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn quote(log: &mut impl Write, text: &str) -> io::Result<()> {
    text.lines()
        .try_for_each(|line| writeln!(log, "  | {line}"))
}
