//! A session on a host as an environment.

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
    Error, ErrorCode, ForkRequest, LaterSnapshots, Quiesce, SessionId, SessionState, SnapshotInfo,
    SnapshotName, ToolEvent, ToolRequest, ToolResponse, WriteOptions,
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::io::StreamReader;

use crate::{
    ByteStream, EnvironmentCapabilities, EnvironmentError, EnvironmentState, ExecutionEnvironment,
    Feature, FileContent, FileStream, ForkConfig, OnProgress, Result, Snapshot, SnapshotId,
};

/// Time that a pause or resume waits for one of another caller to end.
const PAUSE_CONFLICT_TIMEOUT: Duration = Duration::from_mins(1);
/// Delay between attempts meanwhile.
const PAUSE_RETRY_DELAY: Duration = Duration::from_millis(10);

/// A session on a Sandbar host. Dropping a handle does not end the session;
/// [`destroy`](ExecutionEnvironment::destroy) does.
#[derive(Debug)]
pub struct NativeEnvironment {
    client: Client,
    session: SessionId,
    capabilities: EnvironmentCapabilities,
    /// Whether this handle has destroyed the session. The id may be in use again since.
    destroyed: AtomicBool,
    /// Serialises pause and resume of this handle.
    pause_lock: Mutex<()>,
}

impl NativeEnvironment {
    pub(super) fn new(
        client: Client,
        session: SessionId,
        capabilities: EnvironmentCapabilities,
    ) -> Self {
        Self {
            client,
            session,
            capabilities,
            destroyed: AtomicBool::new(false),
            pause_lock: Mutex::default(),
        }
    }

    fn not_active(&self, state: EnvironmentState) -> EnvironmentError {
        EnvironmentError::NotActive {
            session: self.session.clone(),
            state,
        }
    }

    /// Refuses calls after `destroy`, and unsupported features.
    fn admit(&self, feature: Option<Feature>) -> Result<()> {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(self.not_active(EnvironmentState::Destroyed));
        }
        feature.map_or(Ok(()), |feature| self.capabilities.require(feature))
    }

    /// Translates an error of the host. Some codes do not carry the state of the session, which is
    /// then fetched.
    async fn explain(&self, error: Error) -> EnvironmentError {
        match error.code() {
            // It existed when this handle was created.
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

    /// Pauses or resumes. A host refuses one while the other is in progress; here they wait for
    /// each other. Returns once the session was seen in the wanted state.
    async fn set_state(&self, wanted: EnvironmentState) -> Result<()> {
        let _guard = self.pause_lock.lock().await;
        let deadline = Instant::now() + PAUSE_CONFLICT_TIMEOUT;
        loop {
            let found = self
                .explained(self.client.get_session(&self.session).await)
                .await?
                .state;
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
                // Waking works even if the runtime cannot freeze.
                SessionState::Hibernated => self.client.wake_session(&self.session).await,
                _ => return Err(self.not_active(state)),
            };
            match outcome {
                Ok(_) => return Ok(()),
                // Another caller changes or has changed the state.
                Err(error) if is_state_conflict(&error) && Instant::now() < deadline => {
                    sleep(PAUSE_RETRY_DELAY).await;
                }
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
            Err(error) if error.code() == ErrorCode::SessionNotFound => {
                Ok(EnvironmentState::Destroyed)
            }
            Err(error) => Err(EnvironmentError::of_provider(error)),
        }
    }

    async fn execute_tool(
        &self,
        request: ToolRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<ToolResponse> {
        self.admit(None)?;
        let mut tool = self
            .explained(
                self.client
                    .execute_tool_stream(&self.session, &request)
                    .await,
            )
            .await?;
        loop {
            match self.explained(tool.next_event().await).await? {
                Some(ToolEvent::Progress(progress)) => on_progress(progress),
                Some(ToolEvent::Finished(response)) => return Ok(response),
                None => return Err(Error::internal("tool call ended without a result").into()),
            }
        }
    }

    async fn pause(&self) -> Result<()> {
        self.admit(Some(Feature::Pause))?;
        self.set_state(EnvironmentState::Paused).await
    }

    async fn resume(&self) -> Result<()> {
        self.admit(None)?;
        self.set_state(EnvironmentState::Active).await
    }

    async fn destroy(&self) -> Result<()> {
        if self.destroyed.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.client.destroy_session(&self.session).await {
            Err(error)
                if !matches!(
                    error.code(),
                    ErrorCode::SessionNotFound | ErrorCode::SessionDestroying
                ) =>
            {
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
        let taken = self
            .client
            .create_snapshot(&self.session, Some(&name), Quiesce::WhereNeeded)
            .await;
        self.explained(taken).await.map(translate)
    }

    async fn turn_complete(&self) -> Result<Snapshot> {
        self.admit(Some(Feature::Snapshots))?;
        self.explained(self.client.turn_complete(&self.session).await)
            .await
            .map(translate)
    }

    async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        self.admit(Some(Feature::Snapshots))?;
        let snapshots = self
            .explained(self.client.list_snapshots(&self.session).await)
            .await?;
        Ok(snapshots.into_iter().map(translate).collect())
    }

    async fn rollback(&self, snapshot: &SnapshotId) -> Result<()> {
        self.admit(Some(Feature::Rollback))?;
        let name = SnapshotName::new(snapshot.as_str())?;
        let outcome = self
            .client
            .rollback_session(&self.session, &name, LaterSnapshots::Drop)
            .await;
        self.explained(outcome).await.map(drop)
    }

    async fn fork(&self, config: ForkConfig) -> Result<Arc<dyn ExecutionEnvironment>> {
        self.admit(Some(Feature::Fork))?;
        let from = config
            .from
            .map(|snapshot| SnapshotName::new(snapshot.as_str()))
            .transpose()?;
        let ids = config.session_id.into_iter().collect();
        let request = ForkRequest {
            from,
            count: 1,
            ids,
            labels: config.labels,
        };
        let forks = self
            .explained(self.client.fork_session(&self.session, request).await)
            .await?;
        let fork = forks
            .into_iter()
            .next()
            .ok_or_else(|| Error::internal("host returned no fork"))?;
        Ok(Arc::new(Self::new(
            self.client.clone(),
            fork.id,
            self.capabilities.clone(),
        )))
    }

    async fn read_file(&self, path: &Path) -> Result<FileContent> {
        self.admit(None)?;
        let (stat, content) = self
            .explained(self.client.read_file_stream(&self.session, path).await)
            .await?;
        Ok(FileContent {
            stat,
            content: content.map_err(EnvironmentError::of_provider).boxed(),
        })
    }

    async fn write_file(
        &self,
        path: &Path,
        options: WriteOptions,
        content: ByteStream,
    ) -> Result<u64> {
        self.admit(None)?;
        let source = StreamReader::new(content.map_err(io::Error::other));
        self.explained(
            self.client
                .write_file(&self.session, path, options, source)
                .await,
        )
        .await
    }

    async fn list_files(&self, path: &Path, depth: u32) -> Result<FileStream> {
        self.admit(None)?;
        let entries = self
            .explained(
                self.client
                    .list_dir_stream(&self.session, path, depth)
                    .await,
            )
            .await?;
        Ok(entries.map_err(EnvironmentError::of_provider).boxed())
    }
}

fn is_state_conflict(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::SessionPaused | ErrorCode::InvalidState
    )
}

fn translate(snapshot: SnapshotInfo) -> Snapshot {
    Snapshot {
        id: SnapshotId::new(snapshot.name.as_str()),
        name: snapshot.name.into(),
        created_at: snapshot.created,
        space_used: snapshot.space_used,
    }
}
