//! Images in the format of `docker save`.

use std::path::Path;

use sandbar_core::Result;
use serde::Deserialize;

use crate::{
    blobs::{Blobs, blob_path, damaged},
    image::{ImageConfig, LayerUnpacker, UnpackControl, UnpackedImage},
    layout::{MAX_LAYERS, MAX_NAMES, too_many_layers},
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Manifest {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Unpacks the image of an extracted docker-archive into `rootfs`.
pub fn unpack_docker_archive(
    archive: &Path,
    rootfs: &Path,
    control: UnpackControl<'_>,
) -> Result<UnpackedImage> {
    let blobs = Blobs::open(archive)?;
    let manifests: Vec<Manifest> = blobs.document("manifest.json", None)?;
    let [manifest] = &manifests[..] else {
        let names: Vec<_> = manifests
            .iter()
            .flat_map(|manifest| manifest.repo_tags.iter().flatten().cloned())
            .take(MAX_NAMES)
            .collect();
        return Err(damaged(format!(
            "archive contains {} images: {}",
            manifests.len(),
            names.join(", ")
        ))
        .with_hint("save a single image: `docker save NAME -o FILE`"));
    };
    if manifest.layers.len() > MAX_LAYERS {
        return Err(too_many_layers(manifest.layers.len()));
    }
    // Named by its digest, in all versions of the format.
    let name = manifest.config.rsplit('/').next().unwrap_or_default();
    let digest = format!("sha256:{}", name.strip_suffix(".json").unwrap_or(name));
    let digest = Some(digest.as_str()).filter(|digest| blob_path(digest).is_ok());
    let config: ImageConfig = blobs.document(&manifest.config, digest)?;
    config.check_platform()?;
    let known = config.diff_ids(manifest.layers.len())?;
    let mut stack = LayerUnpacker::new(rootfs, control)?;
    for (number, layer) in manifest.layers.iter().enumerate() {
        // `diff_ids` are digests of uncompressed layers.
        let unpacked = stack.add(blobs.file(layer)?);
        unpacked.require(known.get(number).map(String::as_str), layer)?;
    }
    Ok(stack.finish(&config))
}
