//! A session of this process as an environment.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use sandbar_core::{ErrorCode, SessionId, ToolRequest, ToolResponse, WriteOptions};

use super::{provider::Sessions, session::LocalSession};
use crate::{
    ByteStream, EnvironmentCapabilities, EnvironmentError, EnvironmentState, ExecutionEnvironment,
    Feature, FileContent, FileStream, ForkConfig, OnProgress, Result, Snapshot, SnapshotId,
};

/// A session of this process. It ends when it is destroyed, or when its provider and all handles
/// are dropped.
#[derive(Debug)]
pub struct LocalEnvironment {
    session: Arc<LocalSession>,
    capabilities: EnvironmentCapabilities,
    sessions: Arc<Sessions>,
}

impl LocalEnvironment {
    pub(super) fn new(
        session: Arc<LocalSession>,
        capabilities: EnvironmentCapabilities,
        sessions: Arc<Sessions>,
    ) -> Self {
        Self {
            session,
            capabilities,
            sessions,
        }
    }

    fn not_active(&self) -> EnvironmentError {
        EnvironmentError::NotActive {
            session: self.session.id.clone(),
            state: self.session.state(),
        }
    }

    /// Refuses calls after `destroy`, and unsupported features.
    fn admit(&self, feature: Feature) -> Result<()> {
        self.session.present().map_err(|_| self.not_active())?;
        self.capabilities.require(feature)
    }

    /// Refuses a feature that local environments never have.
    fn refuse<T>(&self, feature: Feature) -> Result<T> {
        self.admit(feature)?;
        let reason =
            "a local environment works on the caller's directory without copies".to_owned();
        Err(EnvironmentError::CapabilityNotSupported { feature, reason })
    }

    /// Translates an error of the session.
    fn explain(&self, error: EnvironmentError) -> EnvironmentError {
        match error.cause().map(sandbar_core::Error::code) {
            Some(ErrorCode::SessionPaused | ErrorCode::SessionDestroying) => self.not_active(),
            // The call was cancelled by pause or destroy.
            Some(ErrorCode::Unavailable) if self.session.state() != EnvironmentState::Active => {
                self.not_active()
            }
            _ => error,
        }
    }
}

#[async_trait]
impl ExecutionEnvironment for LocalEnvironment {
    fn session_id(&self) -> &SessionId {
        &self.session.id
    }

    fn capabilities(&self) -> &EnvironmentCapabilities {
        &self.capabilities
    }

    async fn state(&self) -> Result<EnvironmentState> {
        Ok(self.session.state())
    }

    async fn execute_tool(
        &self,
        request: ToolRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<ToolResponse> {
        let result = self.session.execute_tool(request, on_progress).await;
        result.map_err(|error| self.explain(EnvironmentError::of_provider(error)))
    }

    async fn pause(&self) -> Result<()> {
        self.admit(Feature::Pause)?;
        Arc::clone(&self.session)
            .pause()
            .await
            .map_err(|error| self.explain(error.into()))
    }

    async fn resume(&self) -> Result<()> {
        self.admit(Feature::Pause)?;
        Arc::clone(&self.session)
            .resume()
            .await
            .map_err(|error| self.explain(error.into()))
    }

    async fn destroy(&self) -> Result<()> {
        let (session, sessions) = (Arc::clone(&self.session), Arc::clone(&self.sessions));
        // In a task, so that it completes even if the caller is dropped.
        #[expect(
            clippy::disallowed_methods,
            reason = "must complete even if the caller is dropped"
        )]
        let work = tokio::spawn(async move {
            Arc::clone(&session).destroy().await?;
            sessions.remove(&session);
            Ok(())
        });
        match work.await {
            Ok(outcome) => outcome,
            Err(error) => Err(
                sandbar_core::Error::internal("destroying a session panicked")
                    .with_source(error)
                    .into(),
            ),
        }
    }

    async fn create_snapshot(&self, _: &str) -> Result<Snapshot> {
        self.refuse(Feature::Snapshots)
    }

    async fn turn_complete(&self) -> Result<Snapshot> {
        self.refuse(Feature::Snapshots)
    }

    async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        self.refuse(Feature::Snapshots)
    }

    async fn rollback(&self, _: &SnapshotId) -> Result<()> {
        self.refuse(Feature::Rollback)
    }

    async fn fork(&self, _: ForkConfig) -> Result<Arc<dyn ExecutionEnvironment>> {
        self.refuse(Feature::Fork)
    }

    async fn read_file(&self, path: &Path) -> Result<FileContent> {
        self.session
            .read_file(path)
            .await
            .map_err(|error| self.explain(error))
    }

    async fn write_file(
        &self,
        path: &Path,
        options: WriteOptions,
        content: ByteStream,
    ) -> Result<u64> {
        self.session
            .write_file(path, options, content)
            .await
            .map_err(|error| self.explain(error))
    }

    async fn list_files(&self, path: &Path, depth: u32) -> Result<FileStream> {
        self.session
            .list_files(path, depth)
            .await
            .map_err(|error| self.explain(error))
    }
}
