//! Changing what a sandbox may reach, and the secrets that go with it.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use jiff::{SignedDuration, Timestamp};
use sandbar_core::{ErrorCode, Need, Result, SecretName, SecretValue, SessionId};

use super::{NetworkConfig, NetworkPlan, secrets_of};
use crate::{
    answer::ControlError,
    control::{Answer, fields::Fields, in_their_words, session_id},
    keys::Holder,
    sandbox::SandboxNote,
    surface::Surface,
    wake::is_asleep,
};

/// How old a secret of a sandbox that is not there has to be: one that is being made has its secrets first.
const LEFT_BEHIND: SignedDuration = SignedDuration::from_mins(10);

/// Replaces everything that says what the sandbox may reach: what is not sent is not kept. Who may reach it stays.
pub(in crate::control) async fn update(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> Answer<StatusCode> {
    let id = session_id(&id)?;
    holder.require(Need::Admin)?;
    let internet = fields.take("allow_internet_access")?;
    let egress = NetworkConfig::read_egress(&mut fields)?;
    let _turn = surface.turns.take(&id).await;
    if is_asleep(surface.sandbox(&id).await?.state) {
        let why = format!("Sandbox \"{id}\" is paused (resume it with `Sandbox.connect`, then change its network)");
        return Err(ControlError::new(StatusCode::CONFLICT, why));
    }
    let note = surface.note(&id).await?;
    let network = note.network.clone().unwrap_or_default().with_egress(egress);
    surface.apply_network(&id, SandboxNote { network: Some(network), internet, ..note }).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Surface {
    /// Has a sandbox go by the network its note says, and keeps the note.
    pub(in crate::control) async fn apply_network(&self, id: &SessionId, note: SandboxNote) -> Answer<()> {
        let network = note.network.clone().unwrap_or_default();
        let NetworkPlan { policy, secrets } = NetworkPlan::new(id, &network, note.internet)?;
        self.put_secrets(&secrets).await?;
        let names: Vec<SecretName> = secrets.into_iter().map(|(name, _)| name).collect();
        if let Err(error) = self.host.set_network(id, policy).await {
            // The policy before still counts, with its own.
            for name in &names {
                self.forget_secret(name).await;
            }
            return Err(in_their_words(error));
        }
        self.keep_note(id, &note).await?;
        self.forget_secrets(id, &names).await;
        Ok(())
    }

    pub(in crate::control) async fn put_secrets(&self, secrets: &[(SecretName, SecretValue)]) -> Result<()> {
        for (name, value) in secrets {
            self.host.put_secret(name, value.clone()).await?;
        }
        Ok(())
    }

    /// Forgets the secrets of a sandbox but those it still uses.
    pub(in crate::control) async fn forget_secrets(&self, id: &SessionId, used: &[SecretName]) {
        let own = secrets_of(id);
        for secret in self.host.list_secrets().await.unwrap_or_default() {
            if secret.name.as_str().starts_with(&own) && !used.contains(&secret.name) {
                self.forget_secret(&secret.name).await;
            }
        }
    }

    /// Forgets secrets of sandboxes that ended without anybody killing them.
    pub(in crate::control) async fn forget_secrets_left_behind(&self) {
        let now = Timestamp::now();
        for secret in self.host.list_secrets().await.unwrap_or_default() {
            let Some(id) = sandbox_of(&secret.name) else { continue };
            let is_old = now.duration_since(secret.changed) > LEFT_BEHIND;
            let is_gone = async || {
                self.host.get_session(&id).await.is_err_and(|error| error.code() == ErrorCode::SessionNotFound)
            };
            if is_old && is_gone().await {
                self.forget_secret(&secret.name).await;
            }
        }
    }

    async fn forget_secret(&self, name: &SecretName) {
        if let Err(error) = self.host.delete_secret(name).await
            && error.code() != ErrorCode::SecretNotFound
        {
            tracing::warn!(secret = %name, error = error.chain(), "could not forget a secret of a sandbox");
        }
    }
}

/// The sandbox a secret was made for; `None` is one of somebody else's.
fn sandbox_of(name: &SecretName) -> Option<SessionId> {
    let (rest, _number) = name.as_str().strip_prefix("e2b.")?.rsplit_once('.')?;
    let (id, _series) = rest.rsplit_once('.')?;
    SessionId::new(id).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_says_whose_it_is() {
        let of = |name: &str| sandbox_of(&SecretName::new(name).unwrap()).map(|id| id.to_string());
        assert_eq!(of("e2b.s1.x7.0").as_deref(), Some("s1"));
        assert_eq!(of("e2b.my.box.x7.12").as_deref(), Some("my.box"));
        assert_eq!(of("e2b.key"), None);
        assert_eq!(of("github"), None);
    }
}
