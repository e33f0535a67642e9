//! What the host is measured at.

use std::{cell::Cell, io, path::Path, time::Duration};

use sandbar_client::Client;
use sandbar_core::{
    BaseName, Error, ErrorCode, ExecEvent, ExecSpec, ForkRequest, Labels, LaterSnapshots, Quiesce, Resources, Result,
    SessionId, SessionInfo, SessionSpec, SnapshotName, ToolCallId, ToolParams, ToolRequest, WriteOptions,
};
use tokio::task::JoinSet;

use super::{
    baseline::{Baselines, CONTENT, REPEATED},
    report::{Against, Report, Row},
    rounds::{Ended, Times, measure as rounds, timed},
};
use crate::progress::Progress;

/// How many are made at the same time.
const AT_ONCE: usize = 20;

/// What a run that cannot tidy up leaves is gone after this.
const TIME_TO_LIVE: Duration = Duration::from_mins(10);

/// A host under measurement.
struct Subject<'a> {
    client: &'a Client,
    base: &'a BaseName,
    labels: &'a Labels,
    stop: &'a Cell<bool>,
}

/// Measures everything. Every sandbox it makes has `labels`; some are left when it is stopped or fails.
pub(crate) async fn measure(
    client: &Client,
    base: &BaseName,
    labels: &Labels,
    stop: &Cell<bool>,
) -> Result<Report, Ended> {
    let progress = Progress::text("measuring");
    let subject = Subject { client, base, labels, stop };
    let capabilities = client.capabilities().await?;
    progress.show("what this machine does by itself");
    let baselines = Baselines::measure(client, stop).await?;
    let mut report = Report::new(client.url(), &capabilities, baselines);
    progress.show("create, first command, destroy");
    let create = subject.whole_lives(&mut report).await?;
    let session = subject.create().await?.id;
    progress.show("commands and tool calls");
    subject.commands(&session, &mut report).await?;
    subject.tool_calls(&session, &mut report).await?;
    progress.show("snapshots, rollbacks and forks");
    subject.snapshots(&session, &mut report).await?;
    subject.forks(&session, &mut report).await?;
    progress.show("many at once");
    subject.many_at_once(create.median(), &mut report).await?;
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
                    Err(Error::new(ErrorCode::InvalidState, format!("`true` failed in a sandbox: {status:?}"))
                        .with_hint("choose a base that has it with --base"))
                };
            }
        }
        Err(Error::internal("a command ended without an exit status"))
    }

    /// Returns the times of creation alone.
    async fn whole_lives(&self, report: &mut Report) -> Result<Times, Ended> {
        let mut creations = Vec::new();
        let lives = rounds(30, self.stop, async || {
            let (session, created) = timed(self.create()).await?;
            let ((), ran) = timed(self.run(&session.id)).await?;
            let ((), destroyed) = timed(self.client.destroy_session(&session.id)).await?;
            creations.push(created);
            Ok(created + ran + destroyed)
        })
        .await?;
        let creations = Times::new(creations).ok_or(Ended::Stopped)?;
        report.add(Row::new("life", "create, run `true`, destroy", lives).against([Against::Process, Against::Bwrap]));
        report.add(Row::new("create", "create a sandbox", creations.clone()).against([Against::Call]));
        Ok(creations)
    }

    async fn commands(&self, session: &SessionId, report: &mut Report) -> Result<(), Ended> {
        let times = rounds(100, self.stop, async || Ok(timed(self.run(session)).await?.1)).await?;
        let row = Row::new("exec", "run `true` in a live sandbox", times);
        report.add(row.against([Against::Process, Against::Bwrap]));
        Ok(())
    }

    async fn tool_calls(&self, session: &SessionId, report: &mut Report) -> Result<(), Ended> {
        let content = io::Cursor::new(CONTENT.repeat(REPEATED));
        self.client.write_file(session, Path::new("file"), WriteOptions::default(), content).await?;
        let mut params = ToolParams::new();
        params.insert("path".to_owned(), "file".into());
        let times = rounds(200, self.stop, async || {
            let call = ToolCallId::new(SessionId::random().as_str())?;
            let resources = Resources::default();
            let request = ToolRequest { tool: "read_file".to_owned(), call, params: params.clone(), resources };
            let (answer, time) = timed(self.client.execute_tool(session, &request)).await?;
            if answer.is_error {
                return Err(Error::internal(format!("the tool `read_file` failed: {}", answer.content)));
            }
            Ok(time)
        })
        .await?;
        let row = Row::new("tool_call", "tool call: read a file of 4 KiB", times);
        report.add(row.against([Against::Read, Against::Call]));
        Ok(())
    }

    async fn snapshots(&self, session: &SessionId, report: &mut Report) -> Result<(), Ended> {
        let name = SnapshotName::new("bench")?;
        let first = SnapshotName::new("bench-first")?;
        self.client.create_snapshot(session, Some(&first), Quiesce::WhereNeeded).await?;
        let times = rounds(50, self.stop, async || {
            let taking = self.client.create_snapshot(session, Some(&name), Quiesce::WhereNeeded);
            let (_, time) = timed(taking).await?;
            self.client.delete_snapshot(session, &name).await?;
            Ok(time)
        })
        .await?;
        report.add(Row::new("snapshot", "take a snapshot", times).against([Against::Call]));
        let times = rounds(30, self.stop, async || {
            Ok(timed(self.client.rollback_session(session, &first, LaterSnapshots::Drop)).await?.1)
        })
        .await?;
        report.add(Row::new("rollback", "roll back", times).against([Against::Call]));
        Ok(())
    }

    async fn forks(&self, session: &SessionId, report: &mut Report) -> Result<(), Ended> {
        let times = rounds(30, self.stop, async || {
            let request = ForkRequest { count: 1, labels: self.labels.clone(), ..ForkRequest::default() };
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

    /// A host that allows fewer sessions is not measured at this.
    async fn many_at_once(&self, alone: Duration, report: &mut Report) -> Result<(), Ended> {
        let times = rounds(3, self.stop, async || {
            let (made, time) = timed(self.create_many()).await?;
            for session in made {
                self.client.destroy_session(&session.id).await?;
            }
            Ok(time)
        })
        .await;
        match times {
            Err(Ended::Failed(error)) if error.code() == ErrorCode::MaxSessionsReached => {
                report.note(format!("not measured: {AT_ONCE} at once; {error}"));
            }
            times => {
                let factor = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
                let row = Row::new("create_20", "create 20 at once", times?);
                report.add(row.against([Against::Other("20 creates one after the other", alone * factor)]));
            }
        }
        Ok(())
    }

    async fn create_many(&self) -> Result<Vec<SessionInfo>> {
        let mut making = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (client, spec) = (self.client.clone(), self.spec());
            making.spawn(async move { Box::pin(client.create_session(spec)).await });
        }
        let mut made = Vec::new();
        let mut failed = None;
        // All of them are waited for: what is made must be known, to be taken away.
        while let Some(done) = making.join_next().await {
            match done.unwrap_or_else(|error| Err(Error::internal("a task failed").with_source(error))) {
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
