//! Ways to images for the fuzzer.

use super::{
    blobs::blob_path,
    docker::Manifest,
    image::ImageConfig,
    oci::{ImageDocument, choose},
    source,
};

/// What an archive holds, by its names.
pub fn archive_contents(bytes: &[u8]) {
    let _ = source::contents(bytes);
}

/// The documents of an image, of either kind.
pub fn image_documents(bytes: &[u8]) {
    if let Ok(ImageDocument { manifests: Some(manifests), .. }) = serde_json::from_slice(bytes)
        && let Ok(chosen) = choose(&manifests)
        && let Ok(path) = blob_path(&chosen.digest)
    {
        assert!(!path.contains(".."), "`{path}` leads out of the image");
    }
    let _ = serde_json::from_slice::<Vec<Manifest>>(bytes);
    if let Ok(config) = serde_json::from_slice::<ImageConfig>(bytes) {
        let _ = (config.env(), config.check_platform(), config.settings());
    }
}
