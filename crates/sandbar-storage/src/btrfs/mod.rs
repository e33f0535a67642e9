//! The `btrfs` backend: subvolumes and snapshots by ioctl, no subprocess on any request.
//!
//! A data directory on btrfs is used in place. Elsewhere the backend creates a [pool image](image),
//! a sparse file that grows with its content, and mounts it.

mod image;
mod ioctl;
mod loop_device;
mod open;
mod subvolumes;

pub(crate) use open::{open, usable};
