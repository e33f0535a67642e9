//! Secrets that the egress gateway injects into requests of sessions. A value is written to the
//! state database and to requests, and nowhere else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, NetworkPolicy, Result, SecretInfo, SecretName, SecretValue};
use sandbar_egress::Secrets;

use crate::{
    Host,
    engine::Engine,
    state::StateStore,
    verb::{Call, Verb},
};

impl Host {
    /// Creates or changes a secret. The next request that needs it gets the new value.
    pub async fn put_secret(&self, name: &SecretName, value: SecretValue) -> Result<SecretInfo> {
        let name = name.clone();
        self.run(Call::of(Verb::PutSecret), move |engine| {
            engine.secrets.put(&engine.state, name, value)
        })
        .await
    }

    /// Lists the secrets, by name.
    pub async fn list_secrets(&self) -> Result<Vec<SecretInfo>> {
        self.run(Call::of(Verb::ListSecrets), |engine| {
            Ok(engine.secrets.list())
        })
        .await
    }

    /// Deletes a secret. Requests of sessions whose policy names it fail from then on.
    pub async fn delete_secret(&self, name: &SecretName) -> Result<()> {
        let name = name.clone();
        self.run(Call::of(Verb::DeleteSecret), move |engine| {
            engine.secrets.delete(&engine.state, &name)
        })
        .await
    }
}

impl Engine {
    /// Refuses a policy that names an unknown secret.
    pub(crate) fn require_secrets(&self, policy: &NetworkPolicy) -> Result<()> {
        match policy
            .secrets
            .iter()
            .find(|rule| self.secrets.secret(&rule.secret).is_none())
        {
            None => Ok(()),
            Some(rule) => Err(Error::invalid(
                "network.secrets.secret",
                format!("secret `{}` does not exist", rule.secret),
            )
            .with_hint(format!(
                "create it first with `sandbar secret set {}`",
                rule.secret
            ))),
        }
    }
}

/// The secrets of a host: a copy in memory of those in the state database, for every request.
#[derive(Debug)]
pub(crate) struct SecretVault {
    kept: RwLock<BTreeMap<SecretName, Kept>>,
    /// Serialises changes, so that memory and database change in the same order.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Kept {
    value: SecretValue,
    changed: Timestamp,
}

impl SecretVault {
    pub(crate) fn open(state: &StateStore) -> Result<Arc<Self>> {
        let kept = state.secrets()?.into_iter().map(|(info, value)| {
            (
                info.name,
                Kept {
                    value,
                    changed: info.changed,
                },
            )
        });
        Ok(Arc::new(Self {
            kept: RwLock::new(kept.collect()),
            changing: Mutex::default(),
        }))
    }

    fn put(&self, state: &StateStore, name: SecretName, value: SecretValue) -> Result<SecretInfo> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let info = SecretInfo {
            name: name.clone(),
            changed: Timestamp::now(),
        };
        state.put_secret(&info, &value)?;
        tracing::info!(secret = %name, "set a secret");
        let kept = Kept {
            value,
            changed: info.changed,
        };
        self.kept
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, kept);
        Ok(info)
    }

    fn list(&self) -> Vec<SecretInfo> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .map(|(name, kept)| SecretInfo {
                name: name.clone(),
                changed: kept.changed,
            })
            .collect()
    }

    fn delete(&self, state: &StateStore, name: &SecretName) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.delete_secret(name)? {
            return Err(Error::new(
                ErrorCode::SecretNotFound,
                format!("secret `{name}` does not exist"),
            )
            .with_field("name")
            .with_hint("list them with `sandbar secret ls`"));
        }
        tracing::info!(secret = %name, "deleted a secret");
        self.kept
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        Ok(())
    }
}

impl Secrets for SecretVault {
    fn secret(&self, name: &SecretName) -> Option<SecretValue> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.get(name).map(|kept| kept.value.clone())
    }
}
