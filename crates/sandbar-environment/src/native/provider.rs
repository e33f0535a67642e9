//! A host as a provider of environments.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use sandbar_client::{Client, ConnectOptions, TlsOptions, WireProtocol};
use sandbar_core::{Capabilities, Capability, SessionId};

use super::NativeEnvironment;
use crate::{
    EnvironmentCapabilities, EnvironmentConfig, EnvironmentError, EnvironmentProvider,
    ExecutionEnvironment, Result,
};

/// Provider of sessions on a Sandbar host.
#[derive(Clone, Debug)]
pub struct NativeProvider {
    client: Client,
}

impl NativeProvider {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Connects to the host at `url`. Returns `ProviderUnavailable` if it does not answer.
    pub async fn connect(url: &str, token: Option<&str>) -> Result<Self> {
        Self::open(url, token, None).await
    }

    /// Like [`connect`](Self::connect), and trusts only the authorities in a PEM file, such as the
    /// `tls/ca.pem` of `sandbar up --tls auto`.
    pub async fn connect_trusting(url: &str, token: Option<&str>, ca_file: &Path) -> Result<Self> {
        Self::open(url, token, Some(ca_file.to_owned())).await
    }

    async fn open(url: &str, token: Option<&str>, ca_file: Option<PathBuf>) -> Result<Self> {
        let options = ConnectOptions {
            url: url.to_owned(),
            token: token.map(ToOwned::to_owned),
            protocol: WireProtocol::default(),
            tls: TlsOptions {
                ca_file,
                ..TlsOptions::default()
            },
        };
        Client::open(options)
            .await
            .map(Self::new)
            .map_err(EnvironmentError::of_provider)
    }
}

#[async_trait]
impl EnvironmentProvider for NativeProvider {
    async fn capabilities(&self) -> Result<EnvironmentCapabilities> {
        self.client
            .capabilities()
            .await
            .map(translate)
            .map_err(EnvironmentError::of_provider)
    }

    async fn create(&self, config: EnvironmentConfig) -> Result<Arc<dyn ExecutionEnvironment>> {
        let spec = config.session_spec()?;
        let capabilities = self.capabilities().await?;
        capabilities.require_all(&config.required)?;
        let session = self
            .client
            .create_session(spec)
            .await
            .map_err(EnvironmentError::of_provider)?;
        Ok(Arc::new(NativeEnvironment::new(
            self.client.clone(),
            session.id,
            capabilities,
        )))
    }

    async fn attach(&self, session: &SessionId) -> Result<Arc<dyn ExecutionEnvironment>> {
        let found = self.client.get_session(session).await;
        let session = found.map_err(|error| EnvironmentError::of_session(error, session))?;
        let capabilities = self.capabilities().await?;
        Ok(Arc::new(NativeEnvironment::new(
            self.client.clone(),
            session.id,
            capabilities,
        )))
    }
}

fn translate(host: Capabilities) -> EnvironmentCapabilities {
    EnvironmentCapabilities {
        snapshots: host.snapshots,
        rollback: host.rollback,
        pause: host.pause,
        streaming_progress: Capability::Yes,
        tier_routing: Capability::Yes,
        fork: host.fork,
        max_session_duration: None,
        // The API does not expose `max_sessions`.
        concurrent_sessions: None,
        isolation: host.isolation,
    }
}
