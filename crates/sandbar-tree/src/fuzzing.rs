//! Entry points of the fuzzer. Each takes any bytes, and panics where an invariant is broken.

use std::{fs::File, io::Read, path::Path};

pub use crate::archive::fuzzing::{pax_records, sparse_map};
use crate::archive::{
    ArchiveReader, Directories, Limits, Links, UnpackOptions, Unpacker, Whiteouts, decompress,
};

/// Limit of decompressed bytes: an input may be a decompression bomb.
const MAX_BYTES: u64 = 16 << 20;

/// Reads an archive, plain or compressed. No member yields more data than its header declares.
pub fn archive(bytes: &[u8]) {
    let Ok(stream) = decompress(bytes) else {
        return;
    };
    let mut reader = ArchiveReader::new(stream.take(MAX_BYTES));
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

/// Unpacks an archive below `root` as an image layer.
pub fn unpack(root: &Path, bytes: &[u8]) {
    let (Ok(root), Ok(stream)) = (File::open(root), decompress(bytes)) else {
        return;
    };
    let options = UnpackOptions {
        links: Links::FollowInRoot,
        directories: Directories::Replace,
        whiteouts: Whiteouts::Oci,
        limits: Limits {
            entries: 1000,
            bytes: MAX_BYTES,
            ..Limits::DEFAULT
        },
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(root.into(), options);
    let _ = unpacker.unpack(&mut ArchiveReader::new(stream.take(MAX_BYTES)));
}
