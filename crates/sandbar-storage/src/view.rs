//! The directories a volume's tree is merged from, at one point in time.

use std::{path::PathBuf, time::SystemTime};

/// Tree of a volume at a snapshot, or now. Reading it needs no mount.
#[derive(Clone, Debug)]
pub struct TreeView {
    /// `/` first, then deeper mount points.
    pub layers: Vec<ViewLayer>,
    /// Time of the snapshot; `None` for the live volume.
    pub frozen_at: Option<SystemTime>,
    /// Whether inode number and change time survive snapshots of this backend, so that equal
    /// `(inode, ctime)` means an unchanged file.
    pub stable_inodes: bool,
}

/// Mount point of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewLayer {
    /// Absolute path inside the sandbox.
    pub mount_point: PathBuf,
    /// Read-only lower directory, if any.
    pub lower: Option<PathBuf>,
    /// The session's own files. With a `lower`, in overlayfs form: a whiteout is a character device
    /// 0:0, an opaque directory has `trusted.overlay.opaque=y`. `None` when the lower is shown
    /// unchanged.
    pub upper: Option<PathBuf>,
}
