//! OCI whiteouts, deletions in image layers: `.wh.name` deletes `name`, `.wh..wh..opq` deletes the
//! content of its directory from lower layers.

use rustix::io::Errno;
use sandbar_core::Result;

use super::{
    entry::ArchiveEntry,
    unpack::{Unpacker, failure},
};
use crate::{descent::names, remove::remove_at};

const PREFIX: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

impl Unpacker<'_> {
    /// Applies a whiteout; `false` when the entry is not one.
    pub(super) fn whiteout(&mut self, entry: &ArchiveEntry, path: &[u8]) -> Result<bool> {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = slash.map_or((&b""[..], path), |slash| {
            (&path[..slash], &path[slash + 1..])
        });
        if name == OPAQUE {
            self.delete_directory_content(entry, parent)?;
            return Ok(true);
        }
        let Some(hidden) = name.strip_prefix(PREFIX) else {
            return Ok(false);
        };
        // Other names with the double prefix are aufs metadata.
        if !hidden.is_empty() && !hidden.starts_with(PREFIX) && !matches!(hidden, b"." | b"..") {
            self.delete_hidden(entry, parent, hidden)?;
        }
        Ok(true)
    }

    fn delete_hidden(&mut self, entry: &ArchiveEntry, parent: &[u8], name: &[u8]) -> Result<()> {
        let path = join(parent, name);
        if self.unpacked.contains(&path) {
            return Ok(());
        }
        self.root.forget();
        match self.root.open_place(&path) {
            Ok(place) => {
                remove_at(&place.parent, &place.name).map_err(|errno| failure(entry, errno))
            }
            // Nothing to delete.
            Err(
                super::unpack::PlaceError::Failed(Errno::NOENT)
                | super::unpack::PlaceError::NotDirectory,
            ) => Ok(()),
            Err(error) => Err(error.naming(entry)),
        }
    }

    /// Removes the entries of lower layers below a directory, at any depth. Entries this layer has
    /// already unpacked stay.
    fn delete_directory_content(&mut self, entry: &ArchiveEntry, directory: &[u8]) -> Result<()> {
        // Everything below was deleted already, except what this layer has unpacked. Without this
        // check, an archive that repeats the entry costs the square of its size.
        if self.is_below_opaque(directory) {
            return Ok(());
        }
        self.root.forget();
        let opened = match self.root.open_directory(directory) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return Err(failure(entry, errno)),
        };
        let mut pending = vec![(directory.to_vec(), opened)];
        while let Some((path, opened)) = pending.pop() {
            (self.options.check)()?;
            self.listed += 1;
            for (name, _) in names(&opened).map_err(|errno| failure(entry, errno))? {
                let child = join(&path, name.to_bytes());
                if !self.is_unpacked(&child) {
                    remove_at(&opened, &name).map_err(|errno| failure(entry, errno))?;
                } else if self.opaque.contains(&child) {
                    // Listed before.
                } else if let Ok(deeper) = crate::descent::open_directory(&opened, &name) {
                    pending.push((child, deeper));
                }
            }
        }
        self.opaque.insert(directory.to_vec());
        Ok(())
    }

    /// Returns whether a directory, or one above it, was emptied of lower layers by this layer.
    fn is_below_opaque(&self, directory: &[u8]) -> bool {
        let mut path = directory;
        loop {
            if self.opaque.contains(path) {
                return true;
            }
            match path.iter().rposition(|byte| *byte == b'/') {
                Some(slash) => path = &path[..slash],
                None if path.is_empty() => return false,
                None => path = b"",
            }
        }
    }

    /// Returns whether this layer unpacked the path or an entry below it.
    fn is_unpacked(&self, path: &[u8]) -> bool {
        let below = join(path, b"");
        self.unpacked.contains(path)
            || self
                .unpacked
                .range(below.clone()..)
                .next()
                .is_some_and(|known| known.starts_with(&below))
    }
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() {
        name.to_vec()
    } else {
        [parent, b"/", name].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::Timespec;
    use sandbar_testing::tree::scratch;

    use crate::archive::{
        ArchiveEntry, ArchiveReader, ArchiveWriter, EntryKind, UnpackOptions, Unpacker, Whiteouts,
    };

    /// Directories listed while a layer of these names is unpacked.
    fn listed(names: impl Iterator<Item = String>) -> u64 {
        let scratch = scratch();
        let mut writer = ArchiveWriter::new(Vec::new());
        for path in names {
            let entry = ArchiveEntry {
                kind: if path.ends_with('/') {
                    EntryKind::Directory
                } else {
                    EntryKind::File
                },
                path: path.into_bytes(),
                mode: 0o755,
                uid: 0,
                gid: 0,
                modified: Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                },
                size: 0,
                segments: None,
                xattrs: Vec::new(),
            };
            writer.append(&entry, &mut std::io::empty()).unwrap();
        }
        let (bytes, _) = writer.finish().unwrap();
        fs::create_dir_all(scratch.path().join("a/old")).unwrap();
        let options = UnpackOptions {
            whiteouts: Whiteouts::Oci,
            ..UnpackOptions::CAREFUL
        };
        let root = File::open(scratch.path()).unwrap();
        let mut unpacker = Unpacker::new(root.into(), options);
        unpacker
            .unpack(&mut ArchiveReader::new(bytes.as_slice()))
            .unwrap();
        assert!(!scratch.path().join("a/old").exists());
        unpacker.listed
    }

    #[test]
    fn repeated_opaque_whiteouts_list_a_directory_once() {
        let layer = |count: usize| {
            let below = (0..count).map(|number| format!("a/{number}/"));
            let again = (0..count).map(|_| "a/.wh..wh..opq".to_owned());
            listed(below.chain(again))
        };
        let (once, twice) = (layer(50), layer(100));
        assert!(twice <= 2 * once, "{once} and {twice}");
    }

    #[test]
    fn nested_opaque_whiteouts_list_a_directory_once() {
        // The deepest first: each one above would list all below again.
        let layer = |depth: usize| {
            let path = |levels: usize| "a/".repeat(levels);
            let below = (1..=depth).map(path);
            let opaque = (1..=depth)
                .rev()
                .map(move |levels| format!("{}.wh..wh..opq", "a/".repeat(levels)));
            listed(below.chain(opaque))
        };
        let (once, twice) = (layer(40), layer(80));
        assert!(twice <= 2 * once, "{once} and {twice}");
    }
}
