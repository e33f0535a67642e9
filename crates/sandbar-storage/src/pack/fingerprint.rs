//! Fingerprint of a base, to check that a pack is unpacked over the same one.

use std::{
    ffi::CString,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::{
    fs::{self, CWD, FileType},
    io::Errno,
};
use sandbar_core::{BaseName, Error, Result};
use sandbar_tree::descent::{DirectoryStack, EntryStat, names, open_directory};

use crate::{LayerDirectory, Storage};

/// Returns the fingerprint of a base: a hash of name, type, mode, size and time of its files.
/// Owners are left out, because an ordinary user's import cannot keep them.
///
/// A `host` base consists mostly of lent directories. Two machines of the same distribution release
/// count as equal.
pub(super) fn of_base(storage: &dyn Storage, name: &BaseName) -> Result<String> {
    let record = storage.base(name)?;
    if record
        .layers
        .iter()
        .any(|layer| layer.directory != LayerDirectory::Own)
    {
        return Ok(of_machine());
    }
    let mut hasher = blake3::Hasher::new();
    for layer in storage.base_view(name)?.layers {
        if let Some(tree) = layer.lower.or(layer.upper) {
            add_tree(&mut hasher, &tree).map_err(|errno| {
                Error::io(
                    format!("read base `{name}` at `{}`", tree.display()),
                    errno.into(),
                )
            })?;
        }
    }
    Ok(format!("tree:{}", hasher.finalize().to_hex()))
}

fn of_machine() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        let found = release
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_default().trim_matches('"').to_owned()
    };
    format!(
        "machine:{}:{}:{}",
        std::env::consts::ARCH,
        value("ID"),
        value("VERSION_ID")
    )
}

fn add_tree(hasher: &mut blake3::Hasher, root: &Path) -> Result<(), Errno> {
    let name = CString::new(root.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let root = open_directory(CWD, &name)?;
    let mut levels = vec![sorted(&root)?];
    let mut directories = DirectoryStack::new(root)?;
    while let Some(left) = levels.last_mut() {
        let Some(name) = left.pop() else {
            levels.pop();
            directories.pop()?;
            hasher.update(b"\0\0");
            continue;
        };
        let current = directories.current()?;
        let stat = EntryStat::at(current, &name)?;
        hasher.update(name.to_bytes_with_nul());
        hasher.update(&stat.kind.as_raw_mode().to_le_bytes());
        match stat.kind {
            FileType::Directory => {
                hasher.update(&stat.mode.to_le_bytes());
                let directory = open_directory(current, &name)?;
                levels.push(sorted(&directory)?);
                directories.push(directory, stat.identity());
            }
            FileType::RegularFile => {
                hasher.update(&stat.mode.to_le_bytes());
                hasher.update(&stat.size.to_le_bytes());
                hasher.update(&stat.modified.tv_sec.to_le_bytes());
            }
            FileType::Symlink => {
                hasher.update(fs::readlinkat(current, &name, Vec::new())?.to_bytes_with_nul());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Lists a directory in descending order, because names are popped from the end.
fn sorted(directory: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut found: Vec<_> = names(directory)?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    found.sort_by(|left, right| right.cmp(left));
    Ok(found)
}
