//! Secrets the host keeps for its sessions. A value goes into the state database and into requests, and nowhere else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, NetworkPolicy, Result, SecretInfo, SecretName, SecretValue};
use sandbar_net::Secrets;

use crate::{
    Host,
    host::Inner,
    state::StateStore,
    verb::{Call, Verb},
};

impl Host {
    /// Keeps a secret, or changes one: the next request that needs it gets the new value.
    pub async fn put_secret(&self, name: &SecretName, value: SecretValue) -> Result<SecretInfo> {
        let name = name.clone();
        self.run(Call::of(Verb::PutSecret), move |inner| inner.secrets.put(&inner.state, name, value)).await
    }

    /// The secrets there are, by name.
    pub async fn list_secrets(&self) -> Result<Vec<SecretInfo>> {
        self.run(Call::of(Verb::ListSecrets), |inner| Ok(inner.secrets.list())).await
    }

    /// Forgets a secret. Requests of sessions whose policy names it fail from then on.
    pub async fn delete_secret(&self, name: &SecretName) -> Result<()> {
        let name = name.clone();
        self.run(Call::of(Verb::DeleteSecret), move |inner| inner.secrets.delete(&inner.state, &name)).await
    }
}

impl Inner {
    /// Refuses a policy that names a secret nobody has.
    pub(crate) fn require_secrets(&self, policy: &NetworkPolicy) -> Result<()> {
        match policy.secrets.iter().find(|rule| self.secrets.secret(&rule.secret).is_none()) {
            None => Ok(()),
            Some(rule) => {
                Err(Error::invalid("network.secrets.secret", format!("there is no secret `{}`", rule.secret))
                    .with_hint(format!("keep it first with `sandbar secret set {}`", rule.secret)))
            }
        }
    }
}

/// The secrets of a host, in memory as they are in the state database. Every request that gets one asks here.
#[derive(Debug)]
pub(crate) struct SecretVault {
    kept: RwLock<BTreeMap<SecretName, Kept>>,
    /// Held by whoever changes something, so that memory and database change in the same order.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Kept {
    value: SecretValue,
    changed: Timestamp,
}

impl SecretVault {
    pub(crate) fn open(state: &StateStore) -> Result<Arc<Self>> {
        let kept = state.secrets()?.into_iter().map(|(info, value)| (info.name, Kept { value, changed: info.changed }));
        Ok(Arc::new(Self { kept: RwLock::new(kept.collect()), changing: Mutex::default() }))
    }

    fn put(&self, state: &StateStore, name: SecretName, value: SecretValue) -> Result<SecretInfo> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let info = SecretInfo { name: name.clone(), changed: Timestamp::now() };
        state.put_secret(&info, &value)?;
        tracing::info!(secret = %name, "a secret was set");
        let kept = Kept { value, changed: info.changed };
        self.kept.write().unwrap_or_else(PoisonError::into_inner).insert(name, kept);
        Ok(info)
    }

    fn list(&self) -> Vec<SecretInfo> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|(name, kept)| SecretInfo { name: name.clone(), changed: kept.changed }).collect()
    }

    fn delete(&self, state: &StateStore, name: &SecretName) -> Result<()> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.delete_secret(name)? {
            return Err(Error::new(ErrorCode::SecretNotFound, format!("there is no secret `{name}`"))
                .with_field("name")
                .with_hint("list them with `sandbar secret ls`"));
        }
        tracing::info!(secret = %name, "a secret was deleted");
        self.kept.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }
}

impl Secrets for SecretVault {
    fn secret(&self, name: &SecretName) -> Option<SecretValue> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.get(name).map(|kept| kept.value.clone())
    }
}
