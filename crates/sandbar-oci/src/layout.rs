//! Images in the OCI layout format.

use std::{io::Read, path::Path};

use sandbar_core::{Error, Result};
use serde::Deserialize;

use crate::{
    blobs::{Blobs, ImageDescriptor, compare, damaged},
    image::{ImageConfig, LayerUnpacker, UnpackControl, UnpackedImage, architecture},
};

/// Limit on nested indexes; real images have one level.
pub(crate) const MAX_INDEX_DEPTH: usize = 4;
/// Limit on layers; Docker's is 127.
pub(crate) const MAX_LAYERS: usize = 512;
/// Names in a message about several images.
pub(crate) const MAX_NAMES: usize = 8;

/// Index or manifest. An index has `manifests`, a manifest has `layers`; old ones have no media
/// type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageDocument {
    #[serde(default)]
    pub(crate) manifests: Option<Vec<ImageDescriptor>>,
    #[serde(default)]
    config: Option<ImageDescriptor>,
    #[serde(default)]
    layers: Option<Vec<ImageDescriptor>>,
}

/// Result of resolving a document for this platform.
#[derive(Debug)]
pub(crate) enum ResolvedDocument {
    /// Index entry for this platform.
    Descriptor(ImageDescriptor),
    /// Image manifest.
    Manifest {
        config: ImageDescriptor,
        layers: Vec<ImageDescriptor>,
    },
}

impl ImageDocument {
    pub(crate) fn resolve(self) -> Result<ResolvedDocument> {
        match self {
            Self {
                config: Some(config),
                layers: Some(layers),
                ..
            } => {
                if layers.len() > MAX_LAYERS {
                    return Err(too_many_layers(layers.len()));
                }
                Ok(ResolvedDocument::Manifest { config, layers })
            }
            Self {
                manifests: Some(manifests),
                ..
            } => choose(&manifests)
                .cloned()
                .map(ResolvedDocument::Descriptor),
            _ => Err(no_manifest()),
        }
    }
}

pub(crate) fn too_many_layers(found: usize) -> Error {
    damaged(format!(
        "image has {found} layers, more than the limit of {MAX_LAYERS}"
    ))
}

fn no_manifest() -> Error {
    damaged("image has no manifest with layers".into())
}

/// Unpacks the image of a layout for this platform into `rootfs`.
pub fn unpack_layout(
    layout: &Path,
    rootfs: &Path,
    control: UnpackControl<'_>,
) -> Result<UnpackedImage> {
    let blobs = Blobs::open(layout)?;
    let (config, layers) = manifest(&blobs)?;
    let config: ImageConfig = blobs.described(&config)?;
    config.check_platform()?;
    let known = config.diff_ids(layers.len())?;
    let mut stack = LayerUnpacker::new(rootfs, control)?;
    for (number, layer) in layers.iter().enumerate() {
        if layer.media_type.contains("encrypted") {
            return Err(
                damaged(format!("layer `{}` is encrypted", layer.digest)).with_hint(
                    "decrypt it first: `skopeo copy --decryption-key KEY oci:FROM oci:TO`",
                ),
            );
        }
        let mut stream = blobs.stream(layer)?;
        let unpacked = stack.add(stream.by_ref());
        if !unpacked.is_stopped() {
            let failed = |error| Error::io(format!("read layer `{}`", layer.digest), error);
            let digest = stream.finish(u64::MAX).map_err(failed)?;
            compare(&layer.digest, &digest.unwrap_or_default())?;
        }
        unpacked.require(known.get(number).map(String::as_str), &layer.digest)?;
    }
    Ok(stack.finish(&config))
}

/// Returns configuration and layers of the image for this platform.
fn manifest(blobs: &Blobs) -> Result<(ImageDescriptor, Vec<ImageDescriptor>)> {
    let mut document: ImageDocument = blobs.document("index.json", None)?;
    for _ in 0..MAX_INDEX_DEPTH {
        match document.resolve()? {
            ResolvedDocument::Manifest { config, layers } => return Ok((config, layers)),
            ResolvedDocument::Descriptor(descriptor) => document = blobs.described(&descriptor)?,
        }
    }
    Err(no_manifest())
}

pub(crate) fn choose(manifests: &[ImageDescriptor]) -> Result<&ImageDescriptor> {
    let platforms: Vec<_> = manifests
        .iter()
        .filter_map(|manifest| manifest.platform.as_ref())
        .collect();
    if let [only] = manifests
        && platforms.is_empty()
    {
        return Ok(only);
    }
    let here = |manifest: &&ImageDescriptor| {
        manifest.platform.as_ref().is_some_and(|platform| {
            platform.os == "linux" && platform.architecture == architecture()
        })
    };
    if let Some(found) = manifests.iter().find(here) {
        return Ok(found);
    }
    if !platforms.is_empty() {
        let known: Vec<_> = platforms
            .iter()
            .take(MAX_NAMES)
            .map(|known| format!("{}/{}", known.os, known.architecture))
            .collect();
        let message = format!(
            "image has no variant for linux/{}, only for {}",
            architecture(),
            known.join(", ")
        );
        return Err(damaged(message));
    }
    let name = |manifest: &ImageDescriptor| {
        let annotations = manifest.annotations.as_ref();
        annotations
            .and_then(|all| all.get("org.opencontainers.image.ref.name"))
            .unwrap_or(&manifest.digest)
            .clone()
    };
    let names: Vec<_> = manifests.iter().map(name).take(MAX_NAMES).collect();
    Err(damaged(format!(
        "layout contains {} images: {}",
        manifests.len(),
        names.join(", ")
    ))
    .with_hint(
        "copy a single image: `skopeo copy oci:DIRECTORY:NAME oci:OTHER`, then import `OTHER`",
    ))
}
