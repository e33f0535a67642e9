//! What OCI and docker images share: a configuration, and layers one on top of the other.

use std::{collections::BTreeMap, io::Read, path::Path};

use sandbar_core::Result;
use serde::Deserialize;

use super::{
    base::{Filled, open, owner},
    blobs::damaged,
};
use crate::{
    ImageSettings,
    archive::{ArchiveReader, Directories, Links, UnpackOptions, Unpacker, Whiteouts, decompress},
};

/// The part of an image's configuration that matters here.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ImageConfig {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<RunConfig>,
    #[serde(default)]
    pub(super) rootfs: Option<RootFs>,
}

#[derive(Debug, Default, Deserialize)]
struct RunConfig {
    #[serde(default, rename = "Env")]
    env: Option<Vec<String>>,
    #[serde(default, rename = "User")]
    user: Option<String>,
    #[serde(default, rename = "WorkingDir")]
    working_dir: Option<String>,
    #[serde(default, rename = "Entrypoint")]
    entrypoint: Option<Vec<String>>,
    #[serde(default, rename = "Cmd")]
    cmd: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct RootFs {
    #[serde(default)]
    pub(super) diff_ids: Vec<String>,
}

impl ImageConfig {
    pub(super) fn env(&self) -> BTreeMap<String, String> {
        let pairs = self.config.iter().flat_map(|config| config.env.iter().flatten());
        pairs
            .filter_map(|pair| pair.split_once('='))
            .filter(|(key, _)| !key.is_empty())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// How the image wants to be run, beside its environment.
    pub(super) fn settings(&self) -> ImageSettings {
        let Some(config) = &self.config else { return ImageSettings::default() };
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        ImageSettings {
            user: said(&config.user),
            working_dir: said(&config.working_dir),
            entrypoint: config.entrypoint.clone().unwrap_or_default(),
            cmd: config.cmd.clone().unwrap_or_default(),
        }
    }

    /// An image for another machine could be imported, and nothing in it would start.
    pub(super) fn check_platform(&self) -> Result<()> {
        let fits = |said: &str, here: &str| said.is_empty() || said == here;
        if fits(&self.os, "linux") && fits(&self.architecture, architecture()) {
            return Ok(());
        }
        let message =
            format!("image is for {}/{}, this machine is linux/{}", self.os, self.architecture, architecture());
        Err(damaged(message).with_hint(format!(
            "fetch the right one, for example `skopeo copy --override-arch {} docker://NAME oci:image`",
            architecture()
        )))
    }
}

/// This machine's architecture, as images spell it.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        other => other,
    }
}

/// Unpacks layers in order.
pub(super) struct LayerStack<'a> {
    unpacker: Unpacker<'a>,
}

impl<'a> LayerStack<'a> {
    pub(super) fn new(rootfs: &Path, progress: &'a dyn Fn(u64, u64)) -> Result<Self> {
        let options = UnpackOptions {
            links: Links::FollowInRoot,
            directories: Directories::Replace,
            whiteouts: Whiteouts::Oci,
            owner: owner(),
            progress,
            ..UnpackOptions::CAREFUL
        };
        Ok(Self { unpacker: Unpacker::new(open(rootfs)?.into(), options) })
    }

    pub(super) fn add(&mut self, layer: impl Read) -> Result<()> {
        self.unpacker.unpack(&mut ArchiveReader::new(decompress(layer)?))
    }

    pub(super) fn finish(self, config: &ImageConfig) -> Filled {
        let summary = self.unpacker.summary();
        Filled {
            env: config.env(),
            image: Some(config.settings()),
            ..Filled::own(summary.notes.clone(), summary.omitted)
        }
    }
}
