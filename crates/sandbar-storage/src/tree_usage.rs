//! How much a tree takes on disk, by looking at every file.

use std::{collections::HashSet, fs, os::unix::fs::MetadataExt, path::Path};

use sandbar_core::{ByteCount, Error, Result};

/// Bytes allocated to the files below `tree`; hard links count once.
pub(crate) fn allocated(tree: &Path) -> Result<ByteCount> {
    let mut total = 0;
    let mut linked = HashSet::new();
    let mut pending = vec![tree.to_owned()];
    while let Some(directory) = pending.pop() {
        let complain = |error| Error::io(format!("measure `{}`", directory.display()), error);
        for entry in fs::read_dir(&directory).map_err(complain)? {
            let entry = entry.map_err(complain)?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // A live tree changes while it is measured.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(complain(error)),
            };
            if metadata.nlink() > 1 && !metadata.is_dir() && !linked.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            total += metadata.blocks() * 512;
            if metadata.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(ByteCount(total))
}
