//! Health and capabilities of the host.

use sandbar_core::{Capabilities, Health, Result};
use sandbar_proto::v1;

use crate::Client;

impl Client {
    pub async fn health(&self) -> Result<Health> {
        self.repeat(|| self.rpc.health_check(v1::HealthCheckRequest::default()))
            .await?
            .into_owned()
            .try_into()
    }

    pub async fn capabilities(&self) -> Result<Capabilities> {
        self.repeat(|| self.rpc.capabilities(v1::CapabilitiesRequest::default()))
            .await?
            .into_owned()
            .try_into()
    }
}
