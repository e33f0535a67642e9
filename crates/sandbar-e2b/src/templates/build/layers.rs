//! Layers: saved results of steps, reused by builds with the same first steps.

use jiff::Timestamp;
use sandbar_core::{BaseName, Result, SessionId};

use super::plan::Step;
use crate::templates::{
    Templates,
    catalogue::{Contents, LayerRecord},
    ids::{LAYER_BASE, random_id},
    settings::Settings,
};

/// Hash of an origin and the steps applied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayerKey(String);

impl LayerKey {
    /// Returns the key of an origin without steps.
    pub(super) fn of_origin(origin: &str, settings: &Settings) -> Self {
        Self::hash(&[
            b"origin",
            origin.as_bytes(),
            &serde_json::to_vec(settings).unwrap_or_default(),
        ])
    }

    /// Returns the key after one more step.
    pub(super) fn after(&self, step: &Step) -> Self {
        let args = serde_json::to_vec(&step.args).unwrap_or_default();
        let files = step.files_hash.as_deref().unwrap_or_default();
        Self::hash(&[
            self.0.as_bytes(),
            step.kind.to_uppercase().as_bytes(),
            &args,
            files.as_bytes(),
        ])
    }

    fn hash(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sandbar 2026-11 layer of a template");
        for part in parts {
            hasher
                .update(&(part.len() as u64).to_le_bytes())
                .update(part);
        }
        Self(hasher.finalize().to_hex().to_string())
    }
}

impl Templates {
    /// Returns a layer, and marks it as used.
    pub(super) async fn layer(&self, key: &LayerKey) -> Result<Option<LayerRecord>> {
        let catalogue = &self.store().await?.catalogue;
        if !catalogue.view().layers.contains_key(&key.0) {
            return Ok(None);
        }
        catalogue
            .change(|contents| {
                Ok(contents.layers.get_mut(&key.0).map(|layer| {
                    layer.used = Timestamp::now();
                    layer.clone()
                }))
            })
            .await
    }

    /// Removes a layer whose base was deleted.
    pub(super) async fn remove_layer(&self, key: &LayerKey) -> Result<()> {
        let remove = |contents: &mut Contents| {
            contents.layers.remove(&key.0);
            Ok(())
        };
        self.store().await?.catalogue.change(remove).await
    }

    /// Saves the current state of a build session as a layer.
    pub(super) async fn save_layer(
        &self,
        session: &SessionId,
        key: &LayerKey,
        settings: &Settings,
    ) -> Result<()> {
        let base = BaseName::new(format!("{LAYER_BASE}{}", random_id()?))?;
        self.host.save_base(session, None, &base, None).await?;
        let layer = LayerRecord {
            base: base.clone(),
            settings: settings.clone(),
            used: Timestamp::now(),
        };
        let catalogue = &self.store().await?.catalogue;
        let add = |contents: &mut Contents| {
            contents.add_layer(key.0.clone(), layer);
            Result::<()>::Ok(())
        };
        let added = catalogue.change(add).await;
        if added.is_err() {
            let _ = self.host.delete_base(&base).await;
        }
        added?;
        self.remove_leftover().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_key_depends_on_step_arguments_and_files() {
        let step = |args: &[&str], files: Option<&str>| Step {
            kind: "run".into(),
            args: args.iter().map(ToString::to_string).collect(),
            files_hash: files.map(ToOwned::to_owned),
            force: false,
        };
        let origin = LayerKey::of_origin("base", &Settings::default());
        let same = origin.after(&step(&["a", "b"], None));
        assert_eq!(
            same,
            LayerKey::of_origin("base", &Settings::default()).after(&step(&["a", "b"], None))
        );
        for other in [
            step(&["a", "c"], None),
            step(&["ab"], None),
            step(&["a", "b"], Some("f")),
        ] {
            assert_ne!(origin.after(&other), same);
        }
        assert_ne!(LayerKey::of_origin("other", &Settings::default()), origin);
    }
}
