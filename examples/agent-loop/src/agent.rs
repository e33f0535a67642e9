//! The loop: ask the model, do what it says, show it what happened.

use std::io::{self, Write};

use sandbar_core::Resources;
use sandbar_environment::{
    EnvironmentError, ExecutionEnvironment, Feature, SnapshotId, ToolCallId, ToolProgress, ToolRequest, ToolResponse,
};
use serde_json::Value;

use crate::{
    Failure,
    model::{Action, Model, Observation},
};

/// A model at work in an environment.
pub(crate) struct Agent<'a, W> {
    pub(crate) environment: &'a dyn ExecutionEnvironment,
    pub(crate) story: W,
    calls: u32,
    last_turn: Option<SnapshotId>,
}

impl<'a, W: Write + Send> Agent<'a, W> {
    /// `story` is told what happens.
    pub(crate) fn new(environment: &'a dyn ExecutionEnvironment, story: W) -> Self {
        Self { environment, story, calls: 0, last_turn: None }
    }

    /// Goes on until the model has finished.
    pub(crate) async fn run(&mut self, model: &mut dyn Model) -> Result<(), Failure> {
        let mut seen = Observation::Nothing;
        loop {
            seen = match model.next(&seen) {
                Action::Say(words) => {
                    writeln!(self.story, "model: {words}")?;
                    Observation::Nothing
                }
                Action::Call { tool, params } => Observation::Answer(self.call(tool, params).await?),
                Action::EndTurn => {
                    self.end_turn().await?;
                    Observation::Nothing
                }
                Action::GoBack => self.go_back().await?,
                Action::Finish(words) => {
                    writeln!(self.story, "done: {words}")?;
                    return Ok(());
                }
            };
        }
    }

    /// Calls a tool. What it says is told as it comes; a tool that says nothing has its answer told.
    async fn call(&mut self, tool: &str, params: Value) -> Result<ToolResponse, Failure> {
        self.calls += 1;
        let about = ["cmd", "path"].into_iter().find_map(|name| params.get(name)?.as_str()).unwrap_or_default();
        writeln!(self.story, "call {tool}: {about}")?;
        let Value::Object(params) = params else { return Err("parameters are an object".into()) };
        // The environment does a call with the same id only once, so a call that was cut off can be made again.
        let call = ToolCallId::new(format!("call-{}", self.calls))?;
        let request = ToolRequest { tool: tool.to_owned(), call, params, resources: Resources::default() };
        let (story, mut said) = (&mut self.story, Ok(()));
        let mut silent = true;
        let mut on_progress = |progress: ToolProgress| {
            silent = false;
            said = quote(story, &progress.content);
        };
        let answer = self.environment.execute_tool(request, &mut on_progress).await?;
        said?;
        if silent {
            quote(&mut self.story, &answer.content)?;
        }
        match answer.exit_code {
            Some(code) if answer.is_error => writeln!(self.story, "  failed with exit code {code}")?,
            None if answer.is_error => writeln!(self.story, "  failed")?,
            _ => {}
        }
        Ok(answer)
    }

    /// Keeps what was done, where the environment has snapshots.
    async fn end_turn(&mut self) -> Result<(), Failure> {
        if !self.environment.capabilities().has(Feature::Snapshots) {
            writeln!(self.story, "turn over")?;
            return Ok(());
        }
        let snapshot = self.environment.turn_complete().await?;
        writeln!(self.story, "turn over: {}", snapshot.name)?;
        self.last_turn = Some(snapshot.id);
        Ok(())
    }

    /// Takes back what was done since the last turn.
    async fn go_back(&mut self) -> Result<Observation, Failure> {
        let nowhere = SnapshotId::new("none");
        match self.environment.rollback(self.last_turn.as_ref().unwrap_or(&nowhere)).await {
            Ok(()) => {
                writeln!(self.story, "rolled back")?;
                Ok(Observation::Nothing)
            }
            Err(EnvironmentError::CapabilityNotSupported { feature, .. }) => {
                writeln!(self.story, "not rolled back: `{feature}` is not there")?;
                Ok(Observation::CannotGoBack)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn quote(story: &mut impl Write, text: &str) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(story, "  | {line}"))
}
