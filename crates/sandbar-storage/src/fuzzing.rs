//! Ways into the readers of this crate for the fuzzer. Each takes any bytes, and panics where a promise is broken.

use std::{fs::File, io::Read, path::Path};

use crate::archive::{ArchiveReader, Directories, Limits, Links, UnpackOptions, Unpacker, Whiteouts, decompress};
pub use crate::{
    archive::fuzzing::{pax_records, sparse_map},
    import::fuzzing::{archive_contents, image_documents},
    pack::fuzzing::pack_manifest,
    zfs::fuzzing::{mount_table, zfs_listing},
};

/// More than this is not read out of what may be a bomb.
const MOST: u64 = 16 << 20;

/// An archive, plain or compressed, member by member: its data is as long as the member says.
pub fn archive(bytes: &[u8]) {
    let Ok(stream) = decompress(bytes) else { return };
    let mut reader = ArchiveReader::new(stream.take(MOST));
    while let Ok(Some(entry)) = reader.next_entry() {
        let stored = match &entry.segments {
            Some(segments) => segments.iter().map(|segment| segment.length).sum(),
            None => entry.size,
        };
        let (mut read, mut buffer) = (0, [0; 4096]);
        while let Ok(count @ 1..) = reader.read_data(&mut buffer) {
            read += count as u64;
        }
        assert!(read <= stored, "{read} bytes of a member of {stored}");
    }
}

/// An archive, unpacked below `root` as a layer of an image.
pub fn unpack(root: &Path, bytes: &[u8]) {
    let (Ok(root), Ok(stream)) = (File::open(root), decompress(bytes)) else { return };
    let options = UnpackOptions {
        links: Links::FollowInRoot,
        directories: Directories::Replace,
        whiteouts: Whiteouts::Oci,
        limits: Limits { entries: 1000, bytes: MOST },
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(root.into(), options);
    let _ = unpacker.unpack(&mut ArchiveReader::new(stream.take(MOST)));
}
