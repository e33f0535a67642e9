//! Images as `docker save` writes them.

use std::{io::Read, path::Path};

use sandbar_core::{Error, Result};
use serde::Deserialize;

use super::{
    base::Filled,
    blobs::{Blobs, Hashing, compare, damaged},
    image::{ImageConfig, LayerStack},
};
use crate::archive::decompress;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Manifest {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Unpacks the one image of an unpacked docker-archive.
pub(super) fn fill(archive: &Path, rootfs: &Path, progress: &dyn Fn(u64, u64)) -> Result<Filled> {
    let blobs = Blobs::open(archive)?;
    let manifests: Vec<Manifest> = blobs.document("manifest.json", None)?;
    let [manifest] = &manifests[..] else {
        let names: Vec<_> =
            manifests.iter().flat_map(|manifest| manifest.repo_tags.iter().flatten().cloned()).collect();
        return Err(damaged(format!("archive holds {} images: {}", manifests.len(), names.join(", ")))
            .with_hint("save the one you want alone: `docker save NAME -o FILE`"));
    };
    let config: ImageConfig = blobs.document(&manifest.config, None)?;
    config.check_platform()?;
    let known = config.rootfs.as_ref().map_or(&[][..], |rootfs| &rootfs.diff_ids);
    if !known.is_empty() && known.len() != manifest.layers.len() {
        let message = format!("image names {} layers and has {}", known.len(), manifest.layers.len());
        return Err(damaged(message));
    }
    let mut stack = LayerStack::new(rootfs, progress)?;
    for (number, layer) in manifest.layers.iter().enumerate() {
        // The digests in the configuration are those of the layers without compression.
        let mut stream = Hashing::new(decompress(blobs.file(layer)?)?);
        let unpacked = stack.add(stream.by_ref());
        let failed = |error| Error::io(format!("read layer `{layer}`"), error);
        let digest = stream.finish().map_err(failed)?;
        if let Some(expected) = known.get(number) {
            compare(expected, &digest)?;
        }
        unpacked?;
    }
    Ok(stack.finish(&config))
}
