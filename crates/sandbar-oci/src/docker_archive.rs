//! Images in the format of `docker save`.

use std::{io::Read, path::Path};

use sandbar_core::{Error, Result};
use sandbar_tree::archive::decompress;
use serde::Deserialize;

use crate::{
    blobs::{Blobs, HashingReader, compare, damaged},
    image::{ImageConfig, LayerUnpacker, UnpackedImage},
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
    progress: &dyn Fn(u64, u64),
) -> Result<UnpackedImage> {
    let blobs = Blobs::open(archive)?;
    let manifests: Vec<Manifest> = blobs.document("manifest.json", None)?;
    let [manifest] = &manifests[..] else {
        let names: Vec<_> = manifests
            .iter()
            .flat_map(|manifest| manifest.repo_tags.iter().flatten().cloned())
            .collect();
        return Err(damaged(format!(
            "archive contains {} images: {}",
            manifests.len(),
            names.join(", ")
        ))
        .with_hint("save a single image: `docker save NAME -o FILE`"));
    };
    let config: ImageConfig = blobs.document(&manifest.config, None)?;
    config.check_platform()?;
    let known = config
        .rootfs
        .as_ref()
        .map_or(&[][..], |rootfs| &rootfs.diff_ids);
    if !known.is_empty() && known.len() != manifest.layers.len() {
        let message = format!(
            "image configuration lists {} layers, but the manifest {}",
            known.len(),
            manifest.layers.len()
        );
        return Err(damaged(message));
    }
    let mut stack = LayerUnpacker::new(rootfs, progress)?;
    for (number, layer) in manifest.layers.iter().enumerate() {
        // `diff_ids` are digests of uncompressed layers.
        let mut stream = HashingReader::new(decompress(blobs.file(layer)?)?);
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
