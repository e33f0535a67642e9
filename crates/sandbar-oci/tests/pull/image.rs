//! Images to be pulled.

use std::{collections::HashMap, fmt::Write as _};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Parts by digest, and tags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    pub(crate) parts: HashMap<String, Vec<u8>>,
    pub(crate) tags: HashMap<String, String>,
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        write!(digest, "{byte:02x}").unwrap();
    }
    digest
}

pub(crate) fn here() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    }
}

impl Images {
    pub(crate) fn part(&mut self, kind: &str, bytes: impl Into<Vec<u8>>) -> Value {
        let bytes = bytes.into();
        let (digest, size) = (digest(&bytes), bytes.len());
        self.parts.insert(digest.clone(), bytes);
        json!({ "mediaType": kind, "digest": digest, "size": size })
    }

    /// An image of one layer with one file, for one architecture. Answers with its descriptor.
    pub(crate) fn image(&mut self, architecture: &str, content: &[u8]) -> Value {
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": { "Env": ["PATH=/bin", "A=1"], "User": "app:app", "WorkingDir": "/srv", "Entrypoint": ["/init"], "Cmd": ["serve", "-v"] },
        });
        let config = self.part(
            "application/vnd.oci.image.config.v1+json",
            config.to_string(),
        );
        let layer = self.part(
            "application/vnd.oci.image.layer.v1.tar",
            layer("file", content),
        );
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
        let mut descriptor = self.part(
            "application/vnd.oci.image.manifest.v1+json",
            manifest.to_string(),
        );
        descriptor["platform"] = json!({ "os": "linux", "architecture": architecture });
        descriptor
    }

    /// An image for this machine among others, at a tag.
    pub(crate) fn tagged(tag: &str, content: &[u8]) -> Self {
        let mut images = Self::default();
        let (foreign, ours) = (
            images.image("s390x", b"foreign"),
            images.image(here(), content),
        );
        let index = json!({ "schemaVersion": 2, "manifests": [foreign, ours] });
        let index = images.part("application/vnd.oci.image.index.v1+json", index.to_string());
        images.tags.insert(tag.to_owned(), text(&index["digest"]));
        images
    }

    /// The largest part, which is the layer where content is large.
    pub(crate) fn largest(&self) -> String {
        self.parts
            .iter()
            .max_by_key(|(_, bytes)| bytes.len())
            .unwrap()
            .0
            .clone()
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn layer(name: &str, content: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, name, content).unwrap();
    builder.into_inner().unwrap()
}
