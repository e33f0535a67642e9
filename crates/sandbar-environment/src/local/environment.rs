//! One session of this process, as an agent loop sees it.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use sandbar_core::{ErrorCode, SessionId, ToolRequest, ToolResponse, WriteOptions};

use super::{provider::Sessions, session::LocalSession};
use crate::{
    ByteStream, EnvironmentCapabilities, EnvironmentError, EnvironmentState, ExecutionEnvironment, Feature,
    FileContent, FileStream, ForkConfig, OnProgress, Result, Snapshot, SnapshotId,
};

/// A session of this process. It lives until it is destroyed, or its provider and the last handle are gone.
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
        Self { session, capabilities, sessions }
    }

    fn not_active(&self) -> EnvironmentError {
        EnvironmentError::NotActive { session: self.session.id.clone(), state: self.session.state() }
    }

    /// Refuses what comes after the end, and what cannot be done here.
    fn admit(&self, feature: Feature) -> Result<()> {
        self.session.present().map_err(|_| self.not_active())?;
        self.capabilities.require(feature)
    }

    /// For what this kind of environment never has.
    fn refuse<T>(&self, feature: Feature) -> Result<T> {
        self.admit(feature)?;
        let reason = "it is not there on a directory of yours".to_owned();
        Err(EnvironmentError::CapabilityNotSupported { feature, reason })
    }

    /// What an error of the session means.
    fn explain(&self, error: EnvironmentError) -> EnvironmentError {
        match error.cause().map(sandbar_core::Error::code) {
            Some(ErrorCode::SessionPaused | ErrorCode::SessionDestroying) => self.not_active(),
            // The call was cancelled because the session went away.
            Some(ErrorCode::Unavailable) if self.session.state() != EnvironmentState::Active => self.not_active(),
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

    async fn execute_tool(&self, request: ToolRequest, on_progress: OnProgress<'_>) -> Result<ToolResponse> {
        let answer = self.session.execute_tool(request, on_progress).await;
        answer.map_err(|error| self.explain(EnvironmentError::of_provider(error)))
    }

    async fn pause(&self) -> Result<()> {
        self.admit(Feature::Pause)?;
        Arc::clone(&self.session).pause().await.map_err(|error| self.explain(error.into()))
    }

    async fn resume(&self) -> Result<()> {
        self.admit(Feature::Pause)?;
        Arc::clone(&self.session).resume().await.map_err(|error| self.explain(error.into()))
    }

    async fn destroy(&self) -> Result<()> {
        let (session, sessions) = (Arc::clone(&self.session), Arc::clone(&self.sessions));
        // To its end, also when nobody waits for it.
        let work = tokio::spawn(async move {
            Arc::clone(&session).destroy().await?;
            sessions.forget(&session);
            Ok(())
        });
        match work.await {
            Ok(outcome) => outcome,
            Err(error) => Err(sandbar_core::Error::internal("destroying a session panicked").with_source(error).into()),
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
        self.session.read_file(path).await.map_err(|error| self.explain(error))
    }

    async fn write_file(&self, path: &Path, options: WriteOptions, content: ByteStream) -> Result<u64> {
        self.session.write_file(path, options, content).await.map_err(|error| self.explain(error))
    }

    async fn list_files(&self, path: &Path, depth: u32) -> Result<FileStream> {
        self.session.list_files(path, depth).await.map_err(|error| self.explain(error))
    }
}
