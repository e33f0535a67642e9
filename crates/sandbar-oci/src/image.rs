//! Configuration and layers, common to OCI and docker images.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use sandbar_core::{Error, Result};
use sandbar_tree::archive::{
    ArchiveReader, Directories, Links, UnpackOptions, Unpacker, Whiteouts, decompress, unpack_owner,
};
use serde::{Deserialize, Serialize};

use crate::blobs::damaged;

/// Run settings of an image, recorded for callers. The import does not act on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageSettings {
    /// User name or uid, optionally with a group after a colon.
    pub user: Option<String>,
    /// Initial working directory.
    pub working_dir: Option<String>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
}

/// Result of unpacking an image into a root file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnpackedImage {
    pub env: BTreeMap<String, String>,
    pub settings: ImageSettings,
    /// The first few entries that could not be unpacked exactly.
    pub notes: Vec<String>,
    /// Number of entries that could not be unpacked exactly.
    pub omitted: u64,
}

/// Used part of an image's configuration.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ImageConfig {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<RunConfig>,
    #[serde(default)]
    pub(crate) rootfs: Option<RootFs>,
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
pub(crate) struct RootFs {
    #[serde(default)]
    pub(crate) diff_ids: Vec<String>,
}

impl ImageConfig {
    pub(crate) fn env(&self) -> BTreeMap<String, String> {
        let pairs = self
            .config
            .iter()
            .flat_map(|config| config.env.iter().flatten());
        pairs
            .filter_map(|pair| pair.split_once('='))
            .filter(|(key, _)| !key.is_empty())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns the run settings, without the environment.
    pub(crate) fn settings(&self) -> ImageSettings {
        let Some(config) = &self.config else {
            return ImageSettings::default();
        };
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        ImageSettings {
            user: said(&config.user),
            working_dir: said(&config.working_dir),
            entrypoint: config.entrypoint.clone().unwrap_or_default(),
            cmd: config.cmd.clone().unwrap_or_default(),
        }
    }

    /// Refuses an image for another platform, whose programs would not start.
    pub(crate) fn check_platform(&self) -> Result<()> {
        let fits = |said: &str, here: &str| said.is_empty() || said == here;
        if fits(&self.os, "linux") && fits(&self.architecture, architecture()) {
            return Ok(());
        }
        let message = format!(
            "image is for {}/{}, this machine is linux/{}",
            self.os,
            self.architecture,
            architecture()
        );
        Err(damaged(message).with_hint(format!(
            "fetch the image of this platform, for example `skopeo copy --override-arch {} docker://NAME oci:image`",
            architecture()
        )))
    }
}

/// Returns this machine's architecture in Go's spelling, as used in images.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        other => other,
    }
}

/// Unpacks layers in order into one root file system.
pub(crate) struct LayerUnpacker<'a> {
    unpacker: Unpacker<'a>,
}

impl<'a> LayerUnpacker<'a> {
    pub(crate) fn new(rootfs: &Path, progress: &'a dyn Fn(u64, u64)) -> Result<Self> {
        let options = UnpackOptions {
            links: Links::FollowInRoot,
            directories: Directories::Replace,
            whiteouts: Whiteouts::Oci,
            owner: unpack_owner(),
            progress,
            ..UnpackOptions::CAREFUL
        };
        let rootfs = File::open(rootfs)
            .map_err(|error| Error::io(format!("open `{}`", rootfs.display()), error))?;
        Ok(Self {
            unpacker: Unpacker::new(rootfs.into(), options),
        })
    }

    pub(crate) fn add(&mut self, layer: impl Read) -> Result<()> {
        self.unpacker
            .unpack(&mut ArchiveReader::new(decompress(layer)?))
    }

    pub(crate) fn finish(self, config: &ImageConfig) -> UnpackedImage {
        let summary = self.unpacker.summary();
        UnpackedImage {
            env: config.env(),
            settings: config.settings(),
            notes: summary.notes.clone(),
            omitted: summary.omitted,
        }
    }
}
