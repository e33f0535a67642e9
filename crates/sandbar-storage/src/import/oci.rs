//! Images in OCI layout.

use std::{io::Read, path::Path};

use sandbar_core::{Error, Result};
use serde::Deserialize;

use super::{
    base::Filled,
    blobs::{Blobs, ImageDescriptor, compare, damaged},
    image::{ImageConfig, LayerStack, architecture},
};

/// An index may point to further indexes; real ones do so once.
pub const DEEPEST_INDEX: usize = 4;

/// An index has manifests, a manifest has layers; old ones carry no media type to tell them apart.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDocument {
    #[serde(default)]
    pub(super) manifests: Option<Vec<ImageDescriptor>>,
    #[serde(default)]
    config: Option<ImageDescriptor>,
    #[serde(default)]
    layers: Option<Vec<ImageDescriptor>>,
}

/// Where a document of an image leads on this machine.
#[derive(Debug)]
pub enum ImageLead {
    /// It is an index: this is the entry that fits.
    Further(ImageDescriptor),
    /// It is the manifest.
    Manifest { config: ImageDescriptor, layers: Vec<ImageDescriptor> },
}

impl ImageDocument {
    pub fn lead(self) -> Result<ImageLead> {
        match self {
            Self { config: Some(config), layers: Some(layers), .. } => Ok(ImageLead::Manifest { config, layers }),
            Self { manifests: Some(manifests), .. } => choose(&manifests).cloned().map(ImageLead::Further),
            _ => Err(no_manifest()),
        }
    }
}

fn no_manifest() -> Error {
    damaged("image has no manifest with layers".into())
}

/// Unpacks the image of a layout that fits this machine.
pub(super) fn fill(layout: &Path, rootfs: &Path, progress: &dyn Fn(u64, u64)) -> Result<Filled> {
    let blobs = Blobs::open(layout)?;
    let (config, layers) = manifest(&blobs)?;
    let config: ImageConfig = blobs.described(&config)?;
    config.check_platform()?;
    let mut stack = LayerStack::new(rootfs, progress)?;
    for layer in &layers {
        if layer.media_type.contains("encrypted") {
            return Err(damaged(format!("layer `{}` is encrypted", layer.digest))
                .with_hint("decrypt it first: `skopeo copy --decryption-key KEY oci:FROM oci:TO`"));
        }
        let mut stream = blobs.stream(layer)?;
        let unpacked = stack.add(stream.by_ref());
        let failed = |error| Error::io(format!("read layer `{}`", layer.digest), error);
        // A damaged layer fails to unpack in odd ways: the digest is the better thing to say.
        compare(&layer.digest, &stream.finish().map_err(failed)?)?;
        unpacked?;
    }
    Ok(stack.finish(&config))
}

/// Configuration and layers of the image for this machine.
fn manifest(blobs: &Blobs) -> Result<(ImageDescriptor, Vec<ImageDescriptor>)> {
    let mut document: ImageDocument = blobs.document("index.json", None)?;
    for _ in 0..DEEPEST_INDEX {
        match document.lead()? {
            ImageLead::Manifest { config, layers } => return Ok((config, layers)),
            ImageLead::Further(descriptor) => document = blobs.described(&descriptor)?,
        }
    }
    Err(no_manifest())
}

pub(super) fn choose(manifests: &[ImageDescriptor]) -> Result<&ImageDescriptor> {
    let platforms: Vec<_> = manifests.iter().filter_map(|manifest| manifest.platform.as_ref()).collect();
    if let [only] = manifests
        && platforms.is_empty()
    {
        return Ok(only);
    }
    let here = |manifest: &&ImageDescriptor| {
        manifest
            .platform
            .as_ref()
            .is_some_and(|platform| platform.os == "linux" && platform.architecture == architecture())
    };
    if let Some(found) = manifests.iter().find(here) {
        return Ok(found);
    }
    if !platforms.is_empty() {
        let known: Vec<_> = platforms.iter().map(|known| format!("{}/{}", known.os, known.architecture)).collect();
        let message = format!("image has no variant for linux/{}, only for {}", architecture(), known.join(", "));
        return Err(damaged(message));
    }
    let name = |manifest: &ImageDescriptor| {
        let annotations = manifest.annotations.as_ref();
        annotations.and_then(|all| all.get("org.opencontainers.image.ref.name")).unwrap_or(&manifest.digest).clone()
    };
    let names: Vec<_> = manifests.iter().map(name).collect();
    Err(damaged(format!("layout holds {} images: {}", names.len(), names.join(", ")))
        .with_hint("copy the one you want: `skopeo copy oci:DIRECTORY:NAME oci:OTHER`, then import `OTHER`"))
}
