//! Unpacking an archive into a directory, confined to it.

mod options;
mod place;
mod restore;
mod unpacker;

pub use options::{
    Devices, Directories, Links, UnpackOptions, UnpackSummary, Whiteouts, Zeros, unpack_owner,
};
pub(super) use place::PlaceError;
pub use unpacker::Unpacker;
pub(super) use unpacker::failure;
