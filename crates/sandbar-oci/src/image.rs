//! Configuration and layers, common to OCI and docker images.

use std::{collections::BTreeMap, fmt, fs::File, io::Read, path::Path};

use sandbar_core::{Error, ErrorCode, Result};
use sandbar_tree::archive::{
    ArchiveReader, CheckedReader, Directories, Limits, Links, UnpackOptions, Unpacker, Whiteouts,
    decompress, unpack_owner,
};
use serde::{Deserialize, Serialize};

use crate::blobs::{HashingReader, compare, damaged};

/// Limit on the padding after the last entry of a layer.
const MAX_TRAILING_BYTES: u64 = 64 << 20;

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
    /// Returns the digest of each uncompressed layer; empty when the configuration has none.
    pub(crate) fn diff_ids(&self, layers: usize) -> Result<&[String]> {
        let known = self
            .rootfs
            .as_ref()
            .map_or(&[][..], |rootfs| &rootfs.diff_ids);
        if known.is_empty() || known.len() == layers {
            return Ok(known);
        }
        Err(damaged(format!(
            "image configuration lists {} layers, but the manifest {layers}",
            known.len()
        )))
    }

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

/// Work on an image: its progress, and whether it goes on.
#[derive(Clone, Copy)]
pub struct UnpackControl<'a> {
    /// Called often with the entries and bytes unpacked so far.
    pub progress: &'a dyn Fn(u64, u64),
    /// Called often; its error ends the work.
    pub check: &'a dyn Fn() -> Result<()>,
}

impl fmt::Debug for UnpackControl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnpackControl").finish_non_exhaustive()
    }
}

/// Unpacks layers in order into one root file system.
pub(crate) struct LayerUnpacker<'a> {
    unpacker: Unpacker<'a>,
    check: &'a dyn Fn() -> Result<()>,
}

impl<'a> LayerUnpacker<'a> {
    pub(crate) fn new(rootfs: &Path, control: UnpackControl<'a>) -> Result<Self> {
        let options = UnpackOptions {
            links: Links::FollowInRoot,
            directories: Directories::Replace,
            whiteouts: Whiteouts::Oci,
            owner: unpack_owner(),
            limits: Limits::BASE,
            progress: control.progress,
            check: control.check,
            ..UnpackOptions::CAREFUL
        };
        let rootfs = File::open(rootfs)
            .map_err(|error| Error::io(format!("open `{}`", rootfs.display()), error))?;
        Ok(Self {
            unpacker: Unpacker::new(rootfs.into(), options),
            check: control.check,
        })
    }

    /// Unpacks a layer, plain or compressed.
    pub(crate) fn add(&mut self, layer: impl Read) -> UnpackedLayer {
        let layer = match decompress(layer) {
            Ok(layer) => CheckedReader::new(layer, self.check),
            Err(error) => {
                return UnpackedLayer {
                    unpacked: Err(error),
                    digest: None,
                };
            }
        };
        let mut layer = HashingReader::new(layer);
        let unpacked = self
            .unpacker
            .unpack(&mut ArchiveReader::new(layer.by_ref()));
        match layer.finish(MAX_TRAILING_BYTES) {
            Ok(digest) => UnpackedLayer { unpacked, digest },
            Err(error) => UnpackedLayer {
                unpacked: unpacked.and(Err(Error::new(
                    ErrorCode::InvalidArgument,
                    "read the end of a layer",
                )
                .with_source(error))),
                digest: None,
            },
        }
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

/// Outcome of a layer. The caller reports a wrong digest first, because a damaged layer fails to
/// unpack with arbitrary errors.
pub(crate) struct UnpackedLayer {
    unpacked: Result<()>,
    /// SHA-256 of the decompressed layer; `None` when it could not be read to its end.
    digest: Option<String>,
}

impl UnpackedLayer {
    /// Returns whether the work was ended by its caller, and not by the layer.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(&self.unpacked, Err(error) if error.code() != ErrorCode::InvalidArgument)
    }

    /// Compares the digest with the one in the configuration, if there is one.
    pub(crate) fn require(self, diff_id: Option<&str>, name: &str) -> Result<()> {
        if self.is_stopped() {
            return self.unpacked;
        }
        if let (Some(expected), Some(digest)) = (diff_id, &self.digest) {
            compare(expected, digest)?;
        }
        self.unpacked?;
        if self.digest.is_none() {
            return Err(damaged(format!(
                "layer `{name}` has more than {MAX_TRAILING_BYTES} bytes after its end"
            )));
        }
        Ok(())
    }
}
