//! Choosing and opening a backend.

use std::{path::PathBuf, sync::Arc};

use rustix::fs::statfs;
use sandbar_core::{ByteCount, Error, ErrorCode, Result, StorageKind};

use crate::{Storage, ZfsStorage, btrfs, local_disk};

/// Pool and datasets of the `zfs` backend.
#[derive(Clone, Debug)]
pub struct ZfsConfig {
    pub pool: String,
    pub bases_dataset: Option<String>,
    pub sessions_dataset: Option<String>,
}

/// Choice and location of the storage.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// `None` chooses: zfs when a pool is named, else btrfs where available, else plain
    /// directories.
    pub choice: Option<StorageKind>,
    /// Root of btrfs and local-disk; created when missing.
    pub directory: PathBuf,
    pub zfs: Option<ZfsConfig>,
    /// Size limit of a pool image created by the btrfs backend.
    pub pool_image_limit: Option<ByteCount>,
}

/// Opened storage, and the reason for the choice.
#[derive(Clone, Debug)]
pub struct OpenedStorage {
    pub storage: Arc<dyn Storage>,
    pub reason: String,
}

/// Opens the configured backend, or chooses one. A configured backend that cannot be used is an
/// error that names what is missing.
pub fn open(config: &StorageConfig) -> Result<OpenedStorage> {
    let (kind, reason) = match config.choice {
        Some(kind) => (kind, "named in the configuration".to_owned()),
        None => choose(config),
    };
    let storage: Arc<dyn Storage> = match kind {
        StorageKind::Btrfs => Arc::new(btrfs::open(&config.directory, config.pool_image_limit)?),
        StorageKind::LocalDisk => Arc::new(local_disk::open(&config.directory)?),
        StorageKind::Zfs => {
            let zfs = config.zfs.clone().ok_or_else(|| {
                Error::new(
                    ErrorCode::InvalidArgument,
                    "storage `zfs` needs a pool name",
                )
                .with_field("pool_name")
                .with_hint("set `pool_name` in the configuration, or SANDBAR_POOL_NAME")
            })?;
            Arc::new(ZfsStorage::open(&zfs)?)
        }
    };
    Ok(OpenedStorage { storage, reason })
}

fn choose(config: &StorageConfig) -> (StorageKind, String) {
    const BTRFS_MAGIC: i64 = 0x9123_683E;
    if let Some(zfs) = &config.zfs {
        return (
            StorageKind::Zfs,
            format!("pool `{}` is configured", zfs.pool),
        );
    }
    // An existing store wins: another choice would hide its sessions.
    if config.directory.join("pool.btrfs").exists() {
        return (
            StorageKind::Btrfs,
            "the data directory has a pool image".into(),
        );
    }
    if config.directory.join("layout").exists() {
        let on_btrfs = statfs(&config.directory).is_ok_and(|found| found.f_type == BTRFS_MAGIC);
        let is_root = rustix::process::geteuid().is_root();
        return if on_btrfs && is_root {
            (StorageKind::Btrfs, "the data directory is on btrfs".into())
        } else {
            (
                StorageKind::LocalDisk,
                "the data directory has sessions of local-disk".into(),
            )
        };
    }
    match btrfs::usable() {
        Ok(()) => (
            StorageKind::Btrfs,
            "constant-time snapshots; the kernel supports btrfs and `mkfs.btrfs` is installed"
                .into(),
        ),
        Err(missing) => (StorageKind::LocalDisk, missing.to_string()),
    }
}
