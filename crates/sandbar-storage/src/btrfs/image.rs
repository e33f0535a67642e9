//! Pool image: a sparse file with a btrfs file system.
//!
//! The file uses only the space that is written, and frees it when sessions are deleted
//! (`discard`). Its nominal size is most of the free space of the disk, and is raised at start if
//! the disk has grown.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::statvfs;
use sandbar_core::{ByteCount, Error, ErrorCode, Result};

use super::{ioctl, loop_device::LoopDevice};
use crate::{
    overlay::{detach, mount_device},
    private_directory::{make_private_directory, remove_other_access},
};

/// Minimum size for `mkfs.btrfs`.
const MIN_SIZE: ByteCount = ByteCount::mib(256);
/// Below this size, data and metadata share block groups. Otherwise data that fills a small pool
/// would leave 8 MiB of metadata, too little to delete anything.
const MIN_SEPARATE_METADATA_SIZE: ByteCount = ByteCount::gib(4);
const OPTIONS: &str = "discard=async";

/// Mounted pool image.
#[derive(Debug)]
pub(super) struct PoolImage {
    file: PathBuf,
    mount_point: PathBuf,
}

impl PoolImage {
    /// Mounts `directory/pool.btrfs` at `directory/pool`, creating both when missing.
    pub(super) fn open(directory: &Path, limit: Option<ByteCount>) -> Result<Self> {
        let file = directory.join("pool.btrfs");
        let mount_point = directory.join("pool");
        // A killed host without its own mount namespace may have left its mount.
        detach(&mount_point)?;
        make_private_directory(&mount_point)?;
        if file.exists() {
            remove_other_access(&file)?;
        } else {
            make(&file, directory, limit)?;
        }
        let pool = Self { file, mount_point };
        let device = LoopDevice::attach(&pool.file).map_err(|error| {
            Error::io(
                format!("attach `{}` to a loop device", pool.file.display()),
                error,
            )
        })?;
        mount_device(device.path(), &pool.mount_point, "btrfs", OPTIONS)?;
        if let Err(error) = pool.grow(&device, directory, limit) {
            tracing::warn!(error = error.chain(), "could not grow the pool image");
        }
        Ok(pool)
    }

    pub(super) fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Returns the space the disk still has for the image.
    pub(super) fn room_below(&self) -> Result<ByteCount> {
        free_bytes(self.file.parent().unwrap_or(&self.file))
    }

    /// Closes the image file. The root of the mounted pool holds private directories only.
    pub(super) fn close_to_others(&self) -> Result<()> {
        remove_other_access(&self.file)
    }

    pub(super) fn close(&self) -> Result<()> {
        detach(&self.mount_point)
    }

    /// Raises the nominal size if the disk could hold at least a quarter more.
    fn grow(&self, device: &LoopDevice, directory: &Path, limit: Option<ByteCount>) -> Result<()> {
        let complain = |error| Error::io(format!("grow `{}`", self.file.display()), error);
        let metadata = fs::metadata(&self.file).map_err(complain)?;
        let allocated = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
        let wanted = nominal_size(ByteCount(free_bytes(directory)?.get() + allocated), limit);
        if wanted.get() < metadata.len() / 4 * 5 {
            return Ok(());
        }
        let file = OpenOptions::new()
            .write(true)
            .open(&self.file)
            .map_err(complain)?;
        file.set_len(wanted.get()).map_err(complain)?;
        device.refresh_capacity().map_err(complain)?;
        let root = File::open(&self.mount_point).map_err(complain)?;
        ioctl::resize_to_device(&root).map_err(|errno| complain(errno.into()))
    }
}

fn free_bytes(directory: &Path) -> Result<ByteCount> {
    let space = statvfs(directory).map_err(|errno| {
        Error::io(
            format!("read the free space of `{}`", directory.display()),
            errno.into(),
        )
    })?;
    Ok(ByteCount(space.f_bavail * space.f_frsize))
}

/// Returns four fifths of the free space, so that a full pool does not fill the disk of the
/// machine.
fn nominal_size(free: ByteCount, limit: Option<ByteCount>) -> ByteCount {
    let wanted = ByteCount(free.get() / 5 * 4 / 4096 * 4096);
    limit.map_or(wanted, |limit| wanted.min(limit))
}

/// Creates the image under a temporary name and renames it when complete.
fn make(file: &Path, directory: &Path, limit: Option<ByteCount>) -> Result<()> {
    usable()?;
    let size = nominal_size(free_bytes(directory)?, limit);
    if size < MIN_SIZE {
        return Err(Error::new(
            ErrorCode::StorageFull,
            format!(
                "btrfs pool in `{}` would have {size}, and needs at least {MIN_SIZE}",
                directory.display()
            ),
        )
        .with_field("data_dir")
        .with_hint("free space on that disk, or choose another with `--data-dir`"));
    }
    let draft = file.with_extension("btrfs.new");
    let complain = |error| Error::io(format!("make `{}`", draft.display()), error);
    // Mode 0600: the image contains all files of all sessions.
    let mut options = OpenOptions::new();
    let image = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .map_err(complain)?;
    remove_other_access(&draft)?;
    image.set_len(size.get()).map_err(complain)?;
    drop(image);
    // Single metadata: a second copy in the same file would not survive a disk fault either.
    #[expect(clippy::disallowed_methods, reason = "this module owns `mkfs.btrfs`")]
    let mut mkfs = Command::new("mkfs.btrfs");
    mkfs.args([
        "--quiet",
        "--force",
        "--nodiscard",
        "--metadata",
        "single",
        "--label",
        "sandbar",
    ]);
    if size < MIN_SEPARATE_METADATA_SIZE {
        mkfs.arg("--mixed");
    }
    let output = mkfs
        .arg(&draft)
        .output()
        .map_err(|error| Error::io("run `mkfs.btrfs`", error))?;
    if !output.status.success() {
        let _ = fs::remove_file(&draft);
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Error::internal(format!(
            "`mkfs.btrfs` failed: {}",
            words.trim()
        )));
    }
    fs::rename(&draft, file).map_err(complain)
}

/// Checks that a pool image can be created here; the error names what is missing and how to install
/// it.
#[expect(clippy::disallowed_methods, reason = "this module owns `mkfs.btrfs`")]
pub(super) fn usable() -> Result<()> {
    let missing = |what: &str, fix: &str| {
        Err(Error::new(
            ErrorCode::Unavailable,
            format!("btrfs pool cannot be created: {what}"),
        )
        .with_field("storage_backend")
        .with_hint(format!("{fix}, or use `--storage local-disk`")))
    };
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.trim() == "btrfs") {
        return missing("this kernel has no btrfs", "load it with `modprobe btrfs`");
    }
    if !Path::new("/dev/loop-control").exists() {
        return missing(
            "this machine has no loop devices",
            "load them with `modprobe loop`",
        );
    }
    if !rustix::process::geteuid().is_root() {
        return missing("mounting needs root", "run `sudo sandbar up`");
    }
    match Command::new("mkfs.btrfs").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => missing(
            "`mkfs.btrfs` is missing",
            "install it with `apt-get install btrfs-progs`",
        ),
    }
}
