//! Bases: what sessions start from.

use std::sync::PoisonError;

use sandbar_core::{BaseName, Result};
use sandbar_storage::{BaseRecord, ImportProgress, ImportSource, import_base};

use crate::{
    Host,
    verb::{Call, Verb},
};

impl Host {
    pub async fn list_bases(&self) -> Result<Vec<BaseRecord>> {
        self.run(Call::of(Verb::ListBases), |inner| inner.storage.bases()).await
    }

    /// Makes a base. One that fails leaves nothing behind.
    pub async fn import_base(
        &self,
        name: &BaseName,
        source: &ImportSource,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> Result<BaseRecord> {
        let (name, source) = (name.clone(), source.clone());
        let call = Call::of(Verb::ImportBase).with("base", name.as_str());
        self.run(call, move |inner| {
            inner.admit()?;
            inner.require_space()?;
            import_base(&*inner.storage, &name, &source, &progress)
        })
        .await
    }

    /// Removes a base no session stands on, hibernated ones included.
    pub async fn delete_base(&self, name: &BaseName) -> Result<()> {
        let name = name.clone();
        let call = Call::of(Verb::DeleteBase).with("base", name.as_str());
        self.run(call, move |inner| {
            let _order = inner.base_order.lock().unwrap_or_else(PoisonError::into_inner);
            inner.require_unused_by_hibernated(&name)?;
            inner.storage.delete_base(&name)
        })
        .await
    }
}
