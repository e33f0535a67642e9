//! Unpacks a tree from a sandbox below one directory of this machine.

use std::{ffi::OsStr, io::Read, os::unix::ffi::OsStrExt, path::Path};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    process::{getegid, geteuid},
};
use sandbar_core::{Error, Result};
use sandbar_tree::archive::{ArchiveEntry, ArchiveReader, EntryKind, UnpackOptions, Unpacker};

/// Unpacks a stream whose names all have the same first component. It is replaced by `name`, or
/// removed so that the contents land in `directory` itself. Existing files are replaced, existing
/// directories are merged into. Links are created, never followed.
///
/// The stream is not trusted: entries belong to the current user and lose set-user-id bits and
/// extended attributes; devices are skipped.
pub(crate) fn unpack(stream: impl Read, directory: &Path, name: Option<&OsStr>) -> Result<()> {
    let root = openat(
        CWD,
        directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| {
        Error::io(
            format!("could not open `{}`", directory.display()),
            error.into(),
        )
    })?;
    let select = |entry: &mut ArchiveEntry| sanitize(entry, name);
    let options = UnpackOptions {
        owner: Some((geteuid().as_raw(), getegid().as_raw())),
        select: &select,
        ..UnpackOptions::CAREFUL
    };
    Unpacker::new(root, options).unpack(&mut ArchiveReader::new(stream))
}

/// Renames an entry and strips privileged attributes. Returns whether the entry is unpacked.
fn sanitize(entry: &mut ArchiveEntry, name: Option<&OsStr>) -> bool {
    entry.mode &= 0o777;
    entry.xattrs.clear();
    match &mut entry.kind {
        EntryKind::CharDevice { .. } | EntryKind::BlockDevice { .. } => return false,
        EntryKind::HardLink { target } => *target = renamed(target, name),
        _ => {}
    }
    entry.path = renamed(&entry.path, name);
    !entry.path.is_empty()
}

/// Replaces the first component of a path. The unpacker validates the rest.
fn renamed(path: &[u8], name: Option<&OsStr>) -> Vec<u8> {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    // Absolute paths and `..` are kept, so that the unpacker refuses them.
    if path.starts_with(b"/") || path == b".." || path.starts_with(b"../") {
        return path.to_vec();
    }
    let rest = path
        .iter()
        .position(|byte| *byte == b'/')
        .map_or(&[][..], |slash| &path[slash..]);
    match name {
        Some(name) => [name.as_bytes(), rest].concat(),
        None => rest.strip_prefix(b"/").unwrap_or(rest).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use rustix::fs::Timespec;
    use sandbar_testing::tree::{Scratch, scratch};
    use sandbar_tree::archive::ArchiveWriter;

    use super::*;

    /// Returns a stream with malicious entries.
    fn malicious(entries: &[(&str, EntryKind)]) -> Vec<u8> {
        let mut writer = ArchiveWriter::new(Vec::new());
        for (path, kind) in entries {
            let entry = ArchiveEntry {
                path: path.as_bytes().to_vec(),
                kind: kind.clone(),
                mode: 0o6755,
                uid: 12,
                gid: 13,
                modified: Timespec {
                    tv_sec: 1,
                    tv_nsec: 0,
                },
                size: 0,
                segments: None,
                xattrs: Vec::new(),
            };
            writer.append(&entry, &mut std::io::empty()).unwrap();
        }
        writer.finish().unwrap().0
    }

    fn stream_of(source: &Scratch, name: &str) -> Vec<u8> {
        let directory = fs::File::open(source.path()).unwrap();
        let mut writer = ArchiveWriter::new(Vec::new());
        writer
            .append_tree(
                std::os::fd::AsFd::as_fd(&directory),
                Path::new(name),
                Path::new(name),
            )
            .unwrap();
        writer.finish().unwrap().0
    }

    #[test]
    fn tree_is_renamed_and_belongs_to_the_current_user() {
        let (from, to) = (scratch(), scratch());
        let source = from.path().join("source");
        fs::create_dir_all(source.join("deep/er")).unwrap();
        fs::write(source.join("deep/file"), "content").unwrap();
        fs::set_permissions(source.join("deep/file"), fs::Permissions::from_mode(0o4750)).unwrap();
        fs::hard_link(source.join("deep/file"), source.join("twin")).unwrap();
        symlink("deep/file", source.join("link")).unwrap();
        fs::write(source.join(OsStr::from_bytes(b"new\nline\xff")), "odd").unwrap();
        fs::set_permissions(source.join("deep/er"), fs::Permissions::from_mode(0o500)).unwrap();
        unpack(
            stream_of(&from, "source").as_slice(),
            to.path(),
            Some("copy".as_ref()),
        )
        .unwrap();
        let copy = to.path().join("copy");
        let file = fs::metadata(copy.join("deep/file")).unwrap();
        assert_eq!(
            fs::read_to_string(copy.join("deep/file")).unwrap(),
            "content"
        );
        assert_eq!(
            (file.mode() & 0o7777, file.nlink()),
            (0o750, 2),
            "set-user-id must not leave a sandbox"
        );
        assert_eq!(file.uid(), geteuid().as_raw());
        assert_eq!(
            fs::read_link(copy.join("link")).unwrap(),
            Path::new("deep/file")
        );
        assert_eq!(
            fs::read_to_string(copy.join(OsStr::from_bytes(b"new\nline\xff"))).unwrap(),
            "odd"
        );
        assert_eq!(
            fs::metadata(copy.join("deep/er")).unwrap().mode() & 0o777,
            0o500
        );
    }

    #[test]
    fn contents_are_unpacked_without_changing_the_directory() {
        let (from, to) = (scratch(), scratch());
        fs::create_dir(from.path().join("source")).unwrap();
        fs::write(from.path().join("source/file"), "x").unwrap();
        fs::set_permissions(
            from.path().join("source"),
            fs::Permissions::from_mode(0o700),
        )
        .unwrap();
        fs::set_permissions(to.path(), fs::Permissions::from_mode(0o755)).unwrap();
        unpack(stream_of(&from, "source").as_slice(), to.path(), None).unwrap();
        assert_eq!(fs::read_to_string(to.path().join("file")).unwrap(), "x");
        assert_eq!(fs::metadata(to.path()).unwrap().mode() & 0o777, 0o755);
    }

    #[test]
    fn names_outside_the_directory_are_refused() {
        for name in [Some(OsStr::new("x")), None] {
            let to = scratch();
            let inside = to.path().join("inside");
            fs::create_dir(&inside).unwrap();
            for path in [
                "a/../../outside",
                "a/b/../../../outside",
                "../outside",
                "a/..",
            ] {
                // It may be refused or unpacked inside; nothing may appear outside.
                let _ = unpack(
                    malicious(&[(path, EntryKind::File)]).as_slice(),
                    &inside,
                    name,
                );
                assert!(!to.path().join("outside").exists(), "{path}");
            }
        }
    }

    #[test]
    fn link_in_the_stream_is_never_followed() {
        let (to, outside) = (scratch(), scratch());
        let target = outside.path().to_str().unwrap().as_bytes().to_vec();
        let stream = malicious(&[
            ("a", EntryKind::Directory),
            ("a/link", EntryKind::Symlink { target }),
            ("a/link/planted", EntryKind::File),
        ]);
        assert!(unpack(stream.as_slice(), to.path(), Some("a".as_ref())).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn hard_link_to_a_file_outside_is_refused() {
        let (to, outside) = (scratch(), scratch());
        fs::write(outside.path().join("secret"), "x").unwrap();
        for target in [
            outside.path().join("secret"),
            "../../../../../../etc/passwd".into(),
        ] {
            let target = target.as_os_str().as_bytes().to_vec();
            let stream = malicious(&[
                ("a", EntryKind::Directory),
                ("a/stolen", EntryKind::HardLink { target }),
            ]);
            assert!(unpack(stream.as_slice(), to.path(), Some("a".as_ref())).is_err());
        }
    }

    #[test]
    fn devices_are_skipped() {
        let to = scratch();
        let stream = malicious(&[
            ("a", EntryKind::Directory),
            ("a/null", EntryKind::CharDevice { major: 1, minor: 3 }),
        ]);
        unpack(stream.as_slice(), to.path(), Some("a".as_ref())).unwrap();
        assert_eq!(fs::read_dir(to.path().join("a")).unwrap().count(), 0);
    }
}
