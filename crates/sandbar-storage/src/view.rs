//! A volume's tree at one moment, as the directories it is merged from.

use std::{path::PathBuf, time::SystemTime};

/// A volume's tree at a snapshot, or now. Nothing needs to be mounted to read one.
#[derive(Clone, Debug)]
pub struct TreeView {
    /// `/` first, then deeper mount points.
    pub layers: Vec<ViewLayer>,
    /// When the tree stopped changing; `None` for the live volume.
    pub frozen_at: Option<SystemTime>,
    /// Whether an inode keeps its number and change time through this backend's snapshots, so that equal
    /// `(inode, ctime)` means an untouched file.
    pub stable_inodes: bool,
}

/// One mount point of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewLayer {
    /// Absolute path inside the sandbox.
    pub mount_point: PathBuf,
    /// Read-only directory below, if any.
    pub lower: Option<PathBuf>,
    /// The session's own files, in overlayfs form where there is a `lower`: a whiteout is a character device 0:0, an
    /// opaque directory carries `trusted.overlay.opaque=y`. `None` when the lower is shown as it is.
    pub upper: Option<PathBuf>,
}
