//! The network of sessions, and secrets.

use sandbar_core::{NetworkPolicy, NetworkStatus, Result, SecretInfo, SecretName, SecretValue, SessionId};
use sandbar_proto::v1;

use crate::{Client, client::incomplete};

impl Client {
    /// What counts for the network of a session, whether it is kept, and what went through.
    pub async fn get_network(&self, id: &SessionId) -> Result<NetworkStatus> {
        let request = v1::GetNetworkRequest { session_id: id.as_str().to_owned(), ..Default::default() };
        let answer = self.repeat(|| self.rpc.get_network(request.clone())).await?.into_owned();
        answer.status.into_option().ok_or_else(|| incomplete("network"))?.try_into()
    }

    /// Changes what a session may reach.
    pub async fn set_network(&self, id: &SessionId, policy: NetworkPolicy) -> Result<NetworkStatus> {
        let answer = self.once(self.rpc.set_network(v1::SetNetworkRequest::new(id, policy))).await?.into_owned();
        answer.status.into_option().ok_or_else(|| incomplete("network"))?.try_into()
    }

    /// Keeps a secret, or changes one.
    pub async fn put_secret(&self, name: &SecretName, value: &SecretValue) -> Result<SecretInfo> {
        let answer = self.once(self.rpc.put_secret(v1::PutSecretRequest::new(name, value))).await?.into_owned();
        answer.secret.into_option().ok_or_else(|| incomplete("secret"))?.try_into()
    }

    /// The secrets there are, by name. Their values are told to nobody.
    pub async fn list_secrets(&self) -> Result<Vec<SecretInfo>> {
        let request = v1::ListSecretsRequest::default();
        let answer = self.repeat(|| self.rpc.list_secrets(request.clone())).await?.into_owned();
        answer.secrets.into_iter().map(TryInto::try_into).collect()
    }

    /// Forgets a secret.
    pub async fn delete_secret(&self, name: &SecretName) -> Result<()> {
        let request = v1::DeleteSecretRequest { name: name.as_str().to_owned(), ..Default::default() };
        self.once(self.rpc.delete_secret(request)).await.map(drop)
    }
}
