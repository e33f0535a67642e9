//! The measured operations of a host.

use std::{cell::Cell, io, path::Path, time::Duration};

use sandbar_client::Client;
use sandbar_core::{
    BaseName, Error, ErrorCode, ExecEvent, ExecSpec, ForkRequest, Labels, LaterSnapshots, Quiesce,
    Resources, Result, SessionId, SessionInfo, SessionSpec, SnapshotName, ToolCallId, ToolParams,
    ToolRequest, WriteOptions,
};
use tokio::task::JoinSet;

use super::{
    baseline::{Baselines, CONTENT, REPEATED},
    report::{Against, Report, Row},
    rounds::{MeasureError, Times, measure as rounds, timed},
};
use crate::terminal::Progress;

/// Number of sandboxes created concurrently.
const CONCURRENT_CREATES: usize = 20;

/// Time to live of the sandboxes, in case a run cannot remove them.
const TIME_TO_LIVE: Duration = Duration::from_mins(10);

/// Host under measurement.
struct Subject<'a> {
    client: &'a Client,
    base: &'a BaseName,
    labels: &'a Labels,
    stop: &'a Cell<bool>,
}

/// Measures all operations. Every sandbox has `labels`; some are left when it is stopped or fails.
pub(crate) async fn measure(
    client: &Client,
    base: &BaseName,
    labels: &Labels,
    stop: &Cell<bool>,
) -> Result<Report, MeasureError> {
    let progress = Progress::text("measuring");
    let subject = Subject {
        client,
        base,
        labels,
        stop,
    };
    let capabilities = client.capabilities().await?;
    progress.show("baselines");
    let baselines = Baselines::measure(client, stop).await?;
    let mut report = Report::new(client.url(), &capabilities, baselines);
    progress.show("create, first command, destroy");
    let create = subject.lifecycles(&mut report).await?;
    let session = subject.create().await?.id;
    progress.show("commands and tool calls");
    subject.commands(&session, &mut report).await?;
    subject.tool_calls(&session, &mut report).await?;
    progress.show("snapshots, rollbacks and forks");
    subject.snapshots(&session, &mut report).await?;
    subject.forks(&session, &mut report).await?;
    progress.show("concurrent creates");
    subject
        .concurrent_creates(create.median(), &mut report)
        .await?;
    client.destroy_session(&session).await?;
    Ok(report)
}

impl Subject<'_> {
    fn spec(&self) -> SessionSpec {
        let mut spec = SessionSpec::new(self.base.clone());
        spec.labels = self.labels.clone();
        spec.time_to_live = Some(TIME_TO_LIVE);
        spec
    }

    async fn create(&self) -> Result<SessionInfo> {
        Box::pin(self.client.create_session(self.spec())).await
    }

    /// Runs `true` to its end.
    async fn run(&self, session: &SessionId) -> Result<()> {
        let mut command = self.client.exec(session, ExecSpec::new(["true"])).await?;
        while let Some(event) = command.next_event().await? {
            if let ExecEvent::Exited(status) = event {
                return if status.code == Some(0) {
                    Ok(())
                } else {
                    Err(Error::new(
                        ErrorCode::InvalidState,
                        format!("`true` failed in a sandbox: {status:?}"),
                    )
                    .with_hint("choose a base that has `true` with --base"))
                };
            }
        }
        Err(Error::internal("command ended without an exit status"))
    }

    /// Measures create, exec and destroy together; returns the times of create alone.
    async fn lifecycles(&self, report: &mut Report) -> Result<Times, MeasureError> {
        let mut creations = Vec::new();
        let lives = rounds(30, self.stop, async || {
            let (session, created) = timed(self.create()).await?;
            let ((), ran) = timed(self.run(&session.id)).await?;
            let ((), destroyed) = timed(self.client.destroy_session(&session.id)).await?;
            creations.push(created);
            Ok(created + ran + destroyed)
        })
        .await?;
        let creations = Times::new(creations).ok_or(MeasureError::Stopped)?;
        report.add(
            Row::new("life", "create, run `true`, destroy", lives)
                .against([Against::Process, Against::Bwrap]),
        );
        report.add(
            Row::new("create", "create a sandbox", creations.clone()).against([Against::Call]),
        );
        Ok(creations)
    }

    async fn commands(&self, session: &SessionId, report: &mut Report) -> Result<(), MeasureError> {
        let times = rounds(100, self.stop, async || {
            Ok(timed(self.run(session)).await?.1)
        })
        .await?;
        let row = Row::new("exec", "run `true` in a live sandbox", times);
        report.add(row.against([Against::Process, Against::Bwrap]));
        Ok(())
    }

    async fn tool_calls(
        &self,
        session: &SessionId,
        report: &mut Report,
    ) -> Result<(), MeasureError> {
        let content = io::Cursor::new(CONTENT.repeat(REPEATED));
        self.client
            .write_file(session, Path::new("file"), WriteOptions::default(), content)
            .await?;
        let mut params = ToolParams::new();
        params.insert("path".to_owned(), "file".into());
        let times = rounds(200, self.stop, async || {
            let call = ToolCallId::new(SessionId::random().as_str())?;
            let resources = Resources::default();
            let request = ToolRequest {
                tool: "read_file".to_owned(),
                call,
                params: params.clone(),
                resources,
            };
            let (answer, time) = timed(self.client.execute_tool(session, &request)).await?;
            if answer.is_error {
                return Err(Error::internal(format!(
                    "tool `read_file` failed: {}",
                    answer.content
                )));
            }
            Ok(time)
        })
        .await?;
        let row = Row::new("tool_call", "tool call: read a file of 4 KiB", times);
        report.add(row.against([Against::Read, Against::Call]));
        Ok(())
    }

    async fn snapshots(
        &self,
        session: &SessionId,
        report: &mut Report,
    ) -> Result<(), MeasureError> {
        let name = SnapshotName::new("bench")?;
        let first = SnapshotName::new("bench-first")?;
        self.client
            .create_snapshot(session, Some(&first), Quiesce::WhereNeeded)
            .await?;
        let times = rounds(50, self.stop, async || {
            let taking = self
                .client
                .create_snapshot(session, Some(&name), Quiesce::WhereNeeded);
            let (_, time) = timed(taking).await?;
            self.client.delete_snapshot(session, &name).await?;
            Ok(time)
        })
        .await?;
        report.add(Row::new("snapshot", "take a snapshot", times).against([Against::Call]));
        let times = rounds(30, self.stop, async || {
            Ok(timed(
                self.client
                    .rollback_session(session, &first, LaterSnapshots::Drop),
            )
            .await?
            .1)
        })
        .await?;
        report.add(Row::new("rollback", "roll back", times).against([Against::Call]));
        Ok(())
    }

    async fn forks(&self, session: &SessionId, report: &mut Report) -> Result<(), MeasureError> {
        let times = rounds(30, self.stop, async || {
            let request = ForkRequest {
                count: 1,
                labels: self.labels.clone(),
                ..ForkRequest::default()
            };
            let (forks, time) = timed(self.client.fork_session(session, request)).await?;
            for fork in forks {
                self.client.destroy_session(&fork.id).await?;
            }
            Ok(time)
        })
        .await?;
        report.add(Row::new("fork", "fork", times).against([Against::Call]));
        Ok(())
    }

    /// Skipped on a host that allows fewer sessions.
    async fn concurrent_creates(
        &self,
        alone: Duration,
        report: &mut Report,
    ) -> Result<(), MeasureError> {
        let times = rounds(3, self.stop, async || {
            let (made, time) = timed(self.create_many()).await?;
            for session in made {
                self.client.destroy_session(&session.id).await?;
            }
            Ok(time)
        })
        .await;
        match times {
            Err(MeasureError::Failed(error)) if error.code() == ErrorCode::MaxSessionsReached => {
                report.note(format!(
                    "not measured: {CONCURRENT_CREATES} concurrent creates; {error}"
                ));
            }
            times => {
                let factor = u32::try_from(CONCURRENT_CREATES).unwrap_or(u32::MAX);
                let row = Row::new("create_20", "create 20 concurrently", times?);
                report.add(row.against([Against::Other("20 sequential creates", alone * factor)]));
            }
        }
        Ok(())
    }

    async fn create_many(&self) -> Result<Vec<SessionInfo>> {
        let mut making = JoinSet::new();
        for _ in 0..CONCURRENT_CREATES {
            let (client, spec) = (self.client.clone(), self.spec());
            making.spawn(async move { Box::pin(client.create_session(spec)).await });
        }
        let mut made = Vec::new();
        let mut failed = None;
        // Waits for all of them: each created sandbox must be known to be removed.
        while let Some(done) = making.join_next().await {
            match done.unwrap_or_else(|error| {
                Err(Error::internal("create task panicked").with_source(error))
            }) {
                Ok(session) => made.push(session),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => Ok(made),
            Some(error) => {
                for session in made {
                    self.client.destroy_session(&session.id).await?;
                }
                Err(error)
            }
        }
    }
}
