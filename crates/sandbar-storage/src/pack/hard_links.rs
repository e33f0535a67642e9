//! Changes of hard links.
//!
//! A diff compares path by path. Two trees can be equal path by path and still differ in which
//! paths are hard links of one file. So the groups of names are compared, too: every name of a
//! group that was added, removed or changed is packed again, and unpacked linked to the others or
//! separate.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CString, OsStr},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType},
    io::Errno,
};
use sandbar_core::{Error, Result};
use sandbar_tree::descent::{DirectoryStack, EntryStat, Identity, names, open_directory};

use crate::{TreeView, ViewLayer};

/// Groups of paths in the sandbox that are hard links of one file.
type Groups = BTreeSet<BTreeSet<PathBuf>>;

/// Returns paths whose group differs between two trees, whether or not they exist in the second.
pub(super) fn regrouped(from: &TreeView, to: &TreeView) -> Result<BTreeSet<PathBuf>> {
    let mut before = Groups::new();
    let mut after = Groups::new();
    for new in &to.layers {
        let old = from
            .layers
            .iter()
            .find(|old| old.mount_point == new.mount_point);
        // A base below an overlay is the same in both trees; a copied one is compared.
        let layered = new.lower.is_some();
        if let Some(old) = old {
            add(old, layered, &mut before)?;
        }
        add(new, layered, &mut after)?;
    }
    Ok(before
        .symmetric_difference(&after)
        .flatten()
        .cloned()
        .collect())
}

fn add(layer: &ViewLayer, layered: bool, groups: &mut Groups) -> Result<()> {
    let tree = match (&layer.upper, &layer.lower) {
        (Some(upper), _) => upper,
        (None, Some(lower)) if !layered => lower,
        _ => return Ok(()),
    };
    let found = find(tree, &layer.mount_point).map_err(|errno| {
        Error::io(
            format!("search hard links in `{}`", tree.display()),
            errno.into(),
        )
    })?;
    groups.extend(found.into_values().filter(|names| names.len() > 1));
    Ok(())
}

fn find(tree: &Path, mount_point: &Path) -> Result<BTreeMap<Identity, BTreeSet<PathBuf>>, Errno> {
    let mut found: BTreeMap<Identity, BTreeSet<PathBuf>> = BTreeMap::new();
    let name = CString::new(tree.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let root = open_directory(CWD, &name)?;
    let mut place = mount_point.to_owned();
    let mut levels = vec![names(&root)?];
    let mut directories = DirectoryStack::new(root)?;
    while let Some(left) = levels.last_mut() {
        let Some((name, kind)) = left.pop() else {
            levels.pop();
            directories.pop()?;
            place.pop();
            continue;
        };
        let current = directories.current()?;
        let path = place.join(OsStr::from_bytes(name.to_bytes()));
        if kind == FileType::Directory {
            let directory = open_directory(current, &name)?;
            let identity = EntryStat::of(&directory)?.identity();
            levels.push(names(&directory)?);
            directories.push(directory, identity);
            place = path;
            continue;
        }
        let stat = EntryStat::at(current, &name)?;
        // Overlayfs hard-links its whiteouts.
        if stat.links > 1 && stat.kind != FileType::Directory && !stat.is_whiteout() {
            found.entry(stat.identity()).or_default().insert(path);
        }
    }
    Ok(found)
}
