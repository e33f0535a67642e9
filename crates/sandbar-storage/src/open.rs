//! Choosing and opening a backend.

use std::{path::PathBuf, sync::Arc};

use rustix::fs::statfs;
use sandbar_core::{ByteCount, Error, ErrorCode, Result, StorageKind};

use crate::{Storage, ZfsStorage, btrfs, local_disk};

/// Names of the datasets to use.
#[derive(Clone, Debug)]
pub struct ZfsConfig {
    pub pool: String,
    pub bases_dataset: Option<String>,
    pub sessions_dataset: Option<String>,
}

/// Which storage to open, and where.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// `None` chooses: zfs when a pool is named, else btrfs when it can be had, else plain directories.
    pub choice: Option<StorageKind>,
    /// Root of btrfs and local-disk; made when missing.
    pub directory: PathBuf,
    pub zfs: Option<ZfsConfig>,
    /// Bounds a pool image of our own.
    pub pool_image_limit: Option<ByteCount>,
}

/// An opened storage, and why it is this one.
#[derive(Clone, Debug)]
pub struct OpenedStorage {
    pub storage: Arc<dyn Storage>,
    pub reason: String,
}

/// Opens the named backend, or chooses one. A named backend that cannot be used is an error that says what is missing.
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
                Error::new(ErrorCode::InvalidArgument, "storage `zfs` needs the name of a pool")
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
        return (StorageKind::Zfs, format!("pool `{}` is configured", zfs.pool));
    }
    // What is there already wins: choosing differently later would hide the sessions.
    if config.directory.join("pool.btrfs").exists() {
        return (StorageKind::Btrfs, "a pool image is here already".into());
    }
    if config.directory.join("layout").exists() {
        let on_btrfs = statfs(&config.directory).is_ok_and(|found| found.f_type == BTRFS_MAGIC);
        let is_root = rustix::process::geteuid().is_root();
        return if on_btrfs && is_root {
            (StorageKind::Btrfs, "the data directory is on btrfs".into())
        } else {
            (StorageKind::LocalDisk, "sessions are here already".into())
        };
    }
    match btrfs::usable() {
        Ok(()) => (StorageKind::Btrfs, "constant-time snapshots; the kernel has btrfs and `mkfs.btrfs` is here".into()),
        Err(missing) => (StorageKind::LocalDisk, missing.to_string()),
    }
}
