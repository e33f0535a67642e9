//! Changing the egress policy of a sandbox, and the secrets it uses.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use jiff::{SignedDuration, Timestamp};
use sandbar_core::{ErrorCode, Need, Result, SecretName, SecretValue, SessionId};

use super::{NetworkPlan, secrets_of};
use crate::{
    auth::ApiCaller,
    control::{
        Control,
        errors::{session_id, with_e2b_fields},
    },
    rest::{ApiError, ApiResult, Fields},
    sandboxes::{NetworkConfig, SandboxNote, is_asleep},
};

/// Minimum age of an orphaned secret: those of a sandbox being created are stored before its
/// session exists.
const MIN_ORPHAN_AGE: SignedDuration = SignedDuration::from_mins(10);

/// Replaces the egress settings as a whole; fields that are not sent are reset. Ingress settings
/// stay as they are.
pub(in crate::control) async fn update(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<StatusCode> {
    let id = session_id(&id)?;
    caller.require(Need::Admin)?;
    let internet = fields.take("allow_internet_access")?;
    let egress = NetworkConfig::read_egress(&mut fields)?;
    let _lock = control.sandboxes.lock(&id).await;
    if is_asleep(control.sandbox(&id).await?.state) {
        let why = format!(
            "Sandbox \"{id}\" is paused (resume it with `Sandbox.connect`, then change its network)"
        );
        return Err(ApiError::new(StatusCode::CONFLICT, why));
    }
    let note = control.sandboxes.note(&id).await?;
    let network = note.network.clone().unwrap_or_default().with_egress(egress);
    control
        .apply_network(
            &id,
            SandboxNote {
                network: Some(network),
                internet,
                ..note
            },
        )
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Control {
    /// Sets the network policy described by a note, and stores the note.
    pub(in crate::control) async fn apply_network(
        &self,
        id: &SessionId,
        mut note: SandboxNote,
    ) -> ApiResult<()> {
        let ceilings = self.sandboxes.ceilings;
        let mut network = note.network.take().unwrap_or_default();
        ceilings.lower(&mut network, &mut note.internet);
        let NetworkPlan { policy, secrets } = NetworkPlan::new(id, &network, note.internet)?;
        ceilings.check(&policy)?;
        note.network = Some(network);
        self.put_secrets(&secrets).await?;
        let names: Vec<SecretName> = secrets.into_iter().map(|(name, _)| name).collect();
        if let Err(error) = self.host.set_network(id, policy).await {
            // The previous policy stays in force, with its own secrets.
            for name in &names {
                self.delete_secret(name).await;
            }
            return Err(with_e2b_fields(error));
        }
        self.sandboxes.put_note(id, &note).await?;
        self.delete_secrets(id, &names).await;
        Ok(())
    }

    pub(in crate::control) async fn put_secrets(
        &self,
        secrets: &[(SecretName, SecretValue)],
    ) -> Result<()> {
        for (name, value) in secrets {
            self.host.put_secret(name, value.clone()).await?;
        }
        Ok(())
    }

    /// Deletes the secrets of a sandbox except those in use.
    pub(in crate::control) async fn delete_secrets(&self, id: &SessionId, used: &[SecretName]) {
        let own = secrets_of(id);
        for secret in self.host.list_secrets().await.unwrap_or_default() {
            if secret.name.as_str().starts_with(&own) && !used.contains(&secret.name) {
                self.delete_secret(&secret.name).await;
            }
        }
    }

    /// Deletes secrets of sandboxes that expired instead of being killed through this API.
    pub(in crate::control) async fn delete_orphaned_secrets(&self) {
        let now = Timestamp::now();
        for secret in self.host.list_secrets().await.unwrap_or_default() {
            let Some(id) = sandbox_of(&secret.name) else {
                continue;
            };
            let is_old = now.duration_since(secret.changed) > MIN_ORPHAN_AGE;
            let is_gone = async || {
                self.host
                    .get_session(&id)
                    .await
                    .is_err_and(|error| error.code() == ErrorCode::SessionNotFound)
            };
            if is_old && is_gone().await {
                self.delete_secret(&secret.name).await;
            }
        }
    }

    async fn delete_secret(&self, name: &SecretName) {
        if let Err(error) = self.host.delete_secret(name).await
            && error.code() != ErrorCode::SecretNotFound
        {
            tracing::warn!(secret = %name, error = error.chain(), "secret of a sandbox could not be deleted");
        }
    }
}

/// Returns the sandbox a secret was stored for; `None` if it was not stored by this API.
fn sandbox_of(name: &SecretName) -> Option<SessionId> {
    let (rest, _number) = name.as_str().strip_prefix("e2b.")?.rsplit_once('.')?;
    let (id, _series) = rest.rsplit_once('.')?;
    SessionId::new(id).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_is_parsed_from_the_name_of_a_secret() {
        let of = |name: &str| sandbox_of(&SecretName::new(name).unwrap()).map(|id| id.to_string());
        assert_eq!(of("e2b.s1.x7.0").as_deref(), Some("s1"));
        assert_eq!(of("e2b.my.box.x7.12").as_deref(), Some("my.box"));
        assert_eq!(of("e2b.key"), None);
        assert_eq!(of("github"), None);
    }
}
