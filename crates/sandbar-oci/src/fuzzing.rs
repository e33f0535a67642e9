//! Entry points of the fuzzer. Each takes any bytes, and panics where an invariant is broken.

use crate::{
    ImageReference,
    blobs::blob_path,
    challenge::Challenge,
    docker_archive::Manifest,
    image::ImageConfig,
    layout::{ImageDocument, choose},
};

/// A reference that parses is unchanged by a round trip.
pub fn image_reference(bytes: &[u8]) {
    if let Ok(reference) = String::from_utf8_lossy(bytes).parse::<ImageReference>() {
        assert_eq!(
            reference.to_string().parse::<ImageReference>().ok(),
            Some(reference)
        );
    }
}

/// `WWW-Authenticate` header of a registry.
pub fn challenge(bytes: &[u8]) {
    let _ = Challenge::parse(&String::from_utf8_lossy(bytes));
}

/// Documents of an image, of either format.
pub fn image_documents(bytes: &[u8]) {
    if let Ok(ImageDocument {
        manifests: Some(manifests),
        ..
    }) = serde_json::from_slice(bytes)
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
