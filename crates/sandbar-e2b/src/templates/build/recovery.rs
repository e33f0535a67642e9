//! Recovery at start: no build continues, and what it left is removed.

use std::collections::BTreeSet;

use sandbar_core::{BaseName, Result};

use super::builds::BUILD_NOTE;
use crate::templates::{
    Templates,
    catalogue::{BuildFailure, BuildStatus, Contents},
    ids::{BUILT_BASE, LAYER_BASE},
    state::TemplateStore,
};

impl Templates {
    pub(in crate::templates) async fn recover(&self, store: &TemplateStore) -> Result<()> {
        for (session, _) in self.host.notes(BUILD_NOTE).await? {
            if let Err(error) = self.host.destroy_session(&session).await {
                tracing::warn!(%session, error = error.chain(), "session of a build not destroyed; it remains until it expires");
            }
        }
        let bases: BTreeSet<BaseName> = self
            .host
            .list_bases()
            .await?
            .into_iter()
            .map(|base| base.name)
            .collect();
        store
            .catalogue
            .change(|contents| {
                repair(contents, &bases);
                Result::<()>::Ok(())
            })
            .await?;
        self.remove_leftover_of(store).await;
        Ok(())
    }
}

/// Makes the catalogue consistent with the bases of the host.
fn repair(contents: &mut Contents, bases: &BTreeSet<BaseName>) {
    let builds = contents
        .templates
        .values_mut()
        .flat_map(|template| template.builds.values_mut());
    for build in builds {
        if build.status == BuildStatus::Building {
            build.status = BuildStatus::Error;
            build.failure = Some(BuildFailure {
                message: "the host was stopped while this was built (build again)".to_owned(),
                step: None,
            });
        }
        // The base may have been deleted by name, through another API.
        if build
            .base
            .as_ref()
            .is_some_and(|base| !bases.contains(base))
        {
            build.base = None;
        }
    }
    contents
        .layers
        .retain(|_, layer| bases.contains(&layer.base));
    // Our bases that no entry refers to: the host stopped between saving and recording one.
    let builds = contents
        .templates
        .values()
        .flat_map(|template| template.builds.values());
    let recorded: BTreeSet<BaseName> = builds
        .filter_map(|build| build.base.clone())
        .chain(contents.layers.values().map(|layer| layer.base.clone()))
        .collect();
    let is_ours = |base: &&BaseName| {
        [BUILT_BASE, LAYER_BASE]
            .iter()
            .any(|prefix| base.as_str().starts_with(prefix))
    };
    let unrecorded = bases
        .iter()
        .filter(is_ours)
        .filter(|base| !recorded.contains(*base));
    contents.leftover.extend(unrecorded.cloned());
}
