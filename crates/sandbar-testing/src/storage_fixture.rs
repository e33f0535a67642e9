//! A real storage of each kind, with a small base in it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use sandbar_core::{BaseName, ByteCount, SessionId, StorageKind};
use sandbar_storage::{
    BaseLayer, BaseRecord, BaseSource, LayerDirectory, Storage, StorageConfig, VolumeSpec, open,
};

use crate::{FileSystem, Image, ZfsPool, private_mounts, tree};

/// A backend on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A pool image of our own, on whatever `/var/tmp` is.
    BtrfsImage,
    /// A data directory that is on btrfs already.
    BtrfsDirectory,
    /// Plain directories with reflinks and quotas.
    LocalDiskXfs,
    /// Plain directories on a file system that has neither.
    LocalDiskExt4,
    /// A pool over a file, with a daemon of its own.
    Zfs,
}

/// An open storage in a place of its own.
#[derive(Debug)]
pub struct StorageFixture {
    pub storage: Arc<dyn Storage>,
    pub base: BaseName,
    pub config: StorageConfig,
    // Fields are dropped in order: the storage closes before the file system below it is removed.
    _image: Option<Image>,
    _pool: Option<ZfsPool>,
    scratch: tree::Scratch,
}

impl StorageFixture {
    /// A storage with the base `small` of [`small_base`].
    pub fn new(backend: Backend) -> Self {
        Self::with_size(backend, 512)
    }

    /// As [`new`](Self::new), on a pool of `mebibytes`.
    pub fn with_size(backend: Backend, mebibytes: u64) -> Self {
        private_mounts();
        let scratch = tree::scratch();
        let image = |kind| Image::new(scratch.path(), kind, mebibytes);
        let (kind, image) = match backend {
            Backend::BtrfsImage => (StorageKind::Btrfs, None),
            Backend::BtrfsDirectory => (StorageKind::Btrfs, Some(image(FileSystem::Btrfs))),
            Backend::LocalDiskXfs => (StorageKind::LocalDisk, Some(image(FileSystem::Xfs))),
            Backend::LocalDiskExt4 => (StorageKind::LocalDisk, Some(image(FileSystem::Ext4))),
            Backend::Zfs => (StorageKind::Zfs, None),
        };
        let pool = (backend == Backend::Zfs).then(|| ZfsPool::new(mebibytes << 20).unwrap());
        let place = image.as_ref().map_or(scratch.path(), Image::path);
        let config = StorageConfig {
            choice: Some(kind),
            directory: place.join("storage"),
            zfs: pool.as_ref().map(ZfsPool::config),
            pool_image_limit: Some(ByteCount::mib(mebibytes)),
        };
        let storage = open(&config).unwrap().storage;
        let base = BaseName::new("small").unwrap();
        commit_base(&*storage, &base, small_base);
        Self {
            storage,
            base,
            config,
            _image: image,
            _pool: pool,
            scratch,
        }
    }

    /// A new volume over the small base.
    pub fn volume(&self, name: &str) -> SessionId {
        let volume = SessionId::new(name).unwrap();
        self.storage
            .create(
                &volume,
                &VolumeSpec {
                    base: self.base.clone(),
                    quota: None,
                },
            )
            .unwrap();
        volume
    }

    /// Closes the storage and opens it again, as a restarted host would.
    pub fn reopen(&mut self) {
        self.storage.close().unwrap();
        self.storage = open(&self.config).unwrap().storage;
    }

    /// Closes the storage so that a host can open it, and returns its configuration. The fixture
    /// must outlive the host.
    pub fn close(&self) -> &StorageConfig {
        self.storage.close().unwrap();
        &self.config
    }

    /// Returns the data directory for a host on this storage.
    pub fn data_dir(&self) -> PathBuf {
        self.scratch().join("data")
    }

    /// Returns a directory for the test's own files, outside the storage.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}

impl Drop for StorageFixture {
    fn drop(&mut self) {
        // Remaining mounts end with the mount namespace; a panic here would hide that of the test.
        let _ = self.storage.close();
    }
}

/// Adds a base that `fill` writes.
pub fn commit_base(storage: &dyn Storage, name: &BaseName, fill: impl FnOnce(&Path)) {
    let staged = storage.stage_base(name).unwrap();
    fill(&staged.rootfs());
    let record = BaseRecord {
        version: BaseRecord::VERSION,
        name: name.clone(),
        source: BaseSource::Directory,
        created: Timestamp::now(),
        layers: vec![BaseLayer {
            mount_point: "/".into(),
            directory: LayerDirectory::Own,
        }],
        env: BTreeMap::new(),
        image: None,
        size: ByteCount(0),
    };
    storage.commit_base(staged, &record).unwrap();
}

/// A base with a little of everything an agent changes: files, directories, links.
pub fn small_base(root: &Path) {
    for directory in [
        "etc",
        "tmp",
        "workspace",
        "usr/bin",
        "usr/share/doc/deep/deeper",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for number in 0..5 {
        fs::write(
            root.join(format!("usr/bin/tool-{number}")),
            format!("tool {number}\n"),
        )
        .unwrap();
        fs::write(
            root.join(format!("usr/share/doc/deep/page-{number}")),
            "words ".repeat(number * 100),
        )
        .unwrap();
    }
    fs::write(root.join("etc/config"), "key = value\n").unwrap();
    fs::write(root.join("usr/share/doc/deep/deeper/leaf"), "leaf\n").unwrap();
    std::os::unix::fs::symlink("tool-0", root.join("usr/bin/tool")).unwrap();
    fs::hard_link(
        root.join("usr/bin/tool-1"),
        root.join("usr/bin/tool-1-again"),
    )
    .unwrap();
    tree::set_mode(&root.join("tmp"), 0o1777);
}
