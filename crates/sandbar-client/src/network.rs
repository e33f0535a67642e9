//! Network policy of sessions, and secrets.

use sandbar_core::{
    NetworkPolicy, NetworkStatus, Result, SecretInfo, SecretName, SecretValue, SessionId,
};
use sandbar_proto::v1;

use crate::{Client, client::required};

impl Client {
    /// Returns the network policy of a session, whether it is enforced, and the traffic so far.
    pub async fn get_network(&self, id: &SessionId) -> Result<NetworkStatus> {
        let request = v1::GetNetworkRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .repeat(|| self.rpc.get_network(request.clone()))
            .await?
            .into_owned();
        required("network", answer.status.into_option())
    }

    /// Replaces the network policy of a session.
    pub async fn set_network(
        &self,
        id: &SessionId,
        policy: NetworkPolicy,
    ) -> Result<NetworkStatus> {
        let answer = self
            .once(self.rpc.set_network(v1::SetNetworkRequest::new(id, policy)))
            .await?
            .into_owned();
        required("network", answer.status.into_option())
    }

    /// Creates or replaces a secret.
    pub async fn put_secret(&self, name: &SecretName, value: &SecretValue) -> Result<SecretInfo> {
        let answer = self
            .once(self.rpc.put_secret(v1::PutSecretRequest::new(name, value)))
            .await?
            .into_owned();
        required("secret", answer.secret.into_option())
    }

    /// Lists the secrets by name. Their values are never returned.
    pub async fn list_secrets(&self) -> Result<Vec<SecretInfo>> {
        let request = v1::ListSecretsRequest::default();
        let answer = self
            .repeat(|| self.rpc.list_secrets(request.clone()))
            .await?
            .into_owned();
        answer.secrets.into_iter().map(TryInto::try_into).collect()
    }

    /// Deletes a secret.
    pub async fn delete_secret(&self, name: &SecretName) -> Result<()> {
        let request = v1::DeleteSecretRequest {
            name: name.as_str().to_owned(),
            ..Default::default()
        };
        self.once(self.rpc.delete_secret(request)).await.map(drop)
    }
}
