//! One session on a host.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use sandbar_client::Client;
use sandbar_core::{
    Error, ErrorCode, ForkRequest, LaterSnapshots, Quiesce, SessionId, SessionState, SnapshotInfo, SnapshotName,
    ToolEvent, ToolRequest, ToolResponse, WriteOptions,
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::io::StreamReader;

use crate::{
    ByteStream, EnvironmentCapabilities, EnvironmentError, EnvironmentState, ExecutionEnvironment, Feature,
    FileContent, FileStream, ForkConfig, OnProgress, Result, Snapshot, SnapshotId,
};

/// How long a pause or resume waits for that of another caller, and how often it looks.
const CLOCK_PATIENCE: Duration = Duration::from_mins(1);
const CLOCK_INTERVAL: Duration = Duration::from_millis(10);

/// A session on a Sandbar host. Dropping a handle ends nothing; [`destroy`](ExecutionEnvironment::destroy) does.
#[derive(Debug)]
pub struct NativeEnvironment {
    client: Client,
    session: SessionId,
    capabilities: EnvironmentCapabilities,
    /// This handle has seen the end. The id may be somebody else's by now.
    destroyed: AtomicBool,
    /// Held by whoever pauses or resumes.
    clock: Mutex<()>,
}

impl NativeEnvironment {
    pub(super) fn new(client: Client, session: SessionId, capabilities: EnvironmentCapabilities) -> Self {
        Self { client, session, capabilities, destroyed: AtomicBool::new(false), clock: Mutex::default() }
    }

    fn not_active(&self, state: EnvironmentState) -> EnvironmentError {
        EnvironmentError::NotActive { session: self.session.clone(), state }
    }

    /// Refuses what comes after the end, and what the host cannot do.
    fn admit(&self, feature: Option<Feature>) -> Result<()> {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(self.not_active(EnvironmentState::Destroyed));
        }
        feature.map_or(Ok(()), |feature| self.capabilities.require(feature))
    }

    /// What an error of the host means. Some codes say what cannot be done and not why, so the host is asked.
    async fn explain(&self, error: Error) -> EnvironmentError {
        match error.code() {
            // It was there when this handle was made.
            ErrorCode::SessionNotFound => self.not_active(EnvironmentState::Destroyed),
            ErrorCode::SessionPaused => self.not_active(EnvironmentState::Paused),
            ErrorCode::SessionDestroying => self.not_active(EnvironmentState::Destroying),
            ErrorCode::InvalidState | ErrorCode::Unavailable => match self.state().await {
                Ok(state) if state != EnvironmentState::Active => self.not_active(state),
                _ => EnvironmentError::of_provider(error),
            },
            _ => EnvironmentError::of_provider(error),
        }
    }

    /// Pauses or resumes. A host refuses one while it does the other; here they wait for each other, and whoever is told
    /// that it is done has seen it done.
    async fn set_clock(&self, wanted: EnvironmentState) -> Result<()> {
        let _turn = self.clock.lock().await;
        let deadline = Instant::now() + CLOCK_PATIENCE;
        loop {
            let found = self.explained(self.client.get_session(&self.session).await).await?.state;
            if found != SessionState::Hibernated {
                self.capabilities.require(Feature::Pause)?;
            }
            let state = EnvironmentState::from(found);
            if state == wanted {
                return Ok(());
            }
            let outcome = match found {
                SessionState::Active => self.client.pause_session(&self.session).await,
                SessionState::Paused => self.client.resume_session(&self.session).await,
                // It was put away and not frozen: that works also where nothing can be frozen.
                SessionState::Hibernated => self.client.wake_session(&self.session).await,
                _ => return Err(self.not_active(state)),
            };
            match outcome {
                Ok(_) => return Ok(()),
                // Another caller is at it, or was quicker.
                Err(error) if is_about_the_clock(&error) && Instant::now() < deadline => sleep(CLOCK_INTERVAL).await,
                Err(error) => return Err(self.explain(error).await),
            }
        }
    }

    async fn explained<T>(&self, outcome: sandbar_core::Result<T>) -> Result<T> {
        match outcome {
            Ok(value) => Ok(value),
            Err(error) => Err(self.explain(error).await),
        }
    }
}

#[async_trait]
impl ExecutionEnvironment for NativeEnvironment {
    fn session_id(&self) -> &SessionId {
        &self.session
    }

    fn capabilities(&self) -> &EnvironmentCapabilities {
        &self.capabilities
    }

    async fn state(&self) -> Result<EnvironmentState> {
        if self.destroyed.load(Ordering::Acquire) {
            return Ok(EnvironmentState::Destroyed);
        }
        match self.client.get_session(&self.session).await {
            Ok(session) => Ok(session.state.into()),
            Err(error) if error.code() == ErrorCode::SessionNotFound => Ok(EnvironmentState::Destroyed),
            Err(error) => Err(EnvironmentError::of_provider(error)),
        }
    }

    async fn execute_tool(&self, request: ToolRequest, on_progress: OnProgress<'_>) -> Result<ToolResponse> {
        self.admit(None)?;
        let mut tool = self.explained(self.client.execute_tool_stream(&self.session, &request).await).await?;
        loop {
            match self.explained(tool.next_event().await).await? {
                Some(ToolEvent::Progress(progress)) => on_progress(progress),
                Some(ToolEvent::Finished(response)) => return Ok(response),
                None => return Err(Error::internal("the tool call ended without an answer").into()),
            }
        }
    }

    async fn pause(&self) -> Result<()> {
        self.admit(Some(Feature::Pause))?;
        self.set_clock(EnvironmentState::Paused).await
    }

    async fn resume(&self) -> Result<()> {
        self.admit(None)?;
        self.set_clock(EnvironmentState::Active).await
    }

    async fn destroy(&self) -> Result<()> {
        if self.destroyed.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.client.destroy_session(&self.session).await {
            Err(error) if !matches!(error.code(), ErrorCode::SessionNotFound | ErrorCode::SessionDestroying) => {
                Err(self.explain(error).await)
            }
            _ => {
                self.destroyed.store(true, Ordering::Release);
                Ok(())
            }
        }
    }

    async fn create_snapshot(&self, name: &str) -> Result<Snapshot> {
        self.admit(Some(Feature::Snapshots))?;
        let name = SnapshotName::new(name)?;
        let taken = self.client.create_snapshot(&self.session, Some(&name), Quiesce::WhereNeeded).await;
        self.explained(taken).await.map(translate)
    }

    async fn turn_complete(&self) -> Result<Snapshot> {
        self.admit(Some(Feature::Snapshots))?;
        self.explained(self.client.turn_complete(&self.session).await).await.map(translate)
    }

    async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        self.admit(Some(Feature::Snapshots))?;
        let snapshots = self.explained(self.client.list_snapshots(&self.session).await).await?;
        Ok(snapshots.into_iter().map(translate).collect())
    }

    async fn rollback(&self, snapshot: &SnapshotId) -> Result<()> {
        self.admit(Some(Feature::Rollback))?;
        let name = SnapshotName::new(snapshot.as_str())?;
        let outcome = self.client.rollback_session(&self.session, &name, LaterSnapshots::Drop).await;
        self.explained(outcome).await.map(drop)
    }

    async fn fork(&self, config: ForkConfig) -> Result<Arc<dyn ExecutionEnvironment>> {
        self.admit(Some(Feature::Fork))?;
        let from = config.from.map(|snapshot| SnapshotName::new(snapshot.as_str())).transpose()?;
        let ids = config.session_id.into_iter().collect();
        let request = ForkRequest { from, count: 1, ids, labels: config.labels };
        let copies = self.explained(self.client.fork_session(&self.session, request).await).await?;
        let copy = copies.into_iter().next().ok_or_else(|| Error::internal("the fork came without a copy"))?;
        Ok(Arc::new(Self::new(self.client.clone(), copy.id, self.capabilities.clone())))
    }

    async fn read_file(&self, path: &Path) -> Result<FileContent> {
        self.admit(None)?;
        let (stat, content) = self.explained(self.client.read_file_stream(&self.session, path).await).await?;
        Ok(FileContent { stat, content: content.map_err(EnvironmentError::of_provider).boxed() })
    }

    async fn write_file(&self, path: &Path, options: WriteOptions, content: ByteStream) -> Result<u64> {
        self.admit(None)?;
        let source = StreamReader::new(content.map_err(io::Error::other));
        self.explained(self.client.write_file(&self.session, path, options, source).await).await
    }

    async fn list_files(&self, path: &Path, depth: u32) -> Result<FileStream> {
        self.admit(None)?;
        let entries = self.explained(self.client.list_dir_stream(&self.session, path, depth).await).await?;
        Ok(entries.map_err(EnvironmentError::of_provider).boxed())
    }
}

fn is_about_the_clock(error: &Error) -> bool {
    matches!(error.code(), ErrorCode::SessionPaused | ErrorCode::InvalidState)
}

fn translate(snapshot: SnapshotInfo) -> Snapshot {
    Snapshot {
        id: SnapshotId::new(snapshot.name.as_str()),
        name: snapshot.name.into(),
        created_at: snapshot.created,
        space_used: snapshot.space_used,
    }
}
