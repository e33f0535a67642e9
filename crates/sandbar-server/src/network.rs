//! The network of sessions, and secrets.

use connectrpc::{Response, ServiceResult};
use sandbar_core::{Need, SecretName, SessionId};
use sandbar_proto::v1;

use crate::{
    access::Caller,
    failure::{failed, failed_in},
    service::Service,
};

impl Service {
    pub(crate) async fn network_of(&self, caller: &Caller, id: &str) -> ServiceResult<v1::GetNetworkResponse> {
        let id = SessionId::new(id).map_err(failed)?;
        let mut status = self.host.get_network(&id).await.map_err(failed_in(&id))?;
        // Who may only look does not get what opens its ports.
        status.traffic_token = status.traffic_token.filter(|_| caller.grant().may(Need::UseSession(&id)));
        Response::ok(v1::GetNetworkResponse { status: v1::NetworkStatus::from(status).into(), ..Default::default() })
    }

    pub(crate) async fn change_network(&self, request: v1::SetNetworkRequest) -> ServiceResult<v1::SetNetworkResponse> {
        let (id, policy) = request.unpack().map_err(failed)?;
        let status = self.host.set_network(&id, policy).await.map_err(failed_in(&id))?;
        Response::ok(v1::SetNetworkResponse { status: v1::NetworkStatus::from(status).into(), ..Default::default() })
    }

    pub(crate) async fn keep_secret(&self, request: v1::PutSecretRequest) -> ServiceResult<v1::PutSecretResponse> {
        let (name, value) = request.unpack().map_err(failed)?;
        let secret = self.host.put_secret(&name, value).await.map_err(failed)?;
        Response::ok(v1::PutSecretResponse { secret: v1::Secret::from(secret).into(), ..Default::default() })
    }

    pub(crate) async fn all_secrets(&self) -> ServiceResult<v1::ListSecretsResponse> {
        let secrets = self.host.list_secrets().await.map_err(failed)?;
        Response::ok(v1::ListSecretsResponse {
            secrets: secrets.into_iter().map(Into::into).collect(),
            ..Default::default()
        })
    }

    pub(crate) async fn forget_secret(&self, name: &str) -> ServiceResult<v1::DeleteSecretResponse> {
        let name = SecretName::new(name).map_err(|error| failed(error.with_field("name")))?;
        self.host.delete_secret(&name).await.map_err(failed)?;
        Response::ok(v1::DeleteSecretResponse::default())
    }
}
