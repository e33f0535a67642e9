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
        self.root.forget();
        let opened = match self.root.open_directory(directory) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return Err(failure(entry, errno)),
        };
        let mut pending = vec![(directory.to_vec(), opened)];
        while let Some((path, opened)) = pending.pop() {
            for (name, _) in names(&opened).map_err(|errno| failure(entry, errno))? {
                let child = join(&path, name.to_bytes());
                if !self.is_unpacked(&child) {
                    remove_at(&opened, &name).map_err(|errno| failure(entry, errno))?;
                } else if let Ok(deeper) = crate::descent::open_directory(&opened, &name) {
                    pending.push((child, deeper));
                }
            }
        }
        Ok(())
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
