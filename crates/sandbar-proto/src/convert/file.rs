//! File messages and paths.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use buffa::bytes::Bytes;
use sandbar_core::{ByteCount, EntryType, Error, FileStat, Result};

use super::scalar::{known, missing, pack_time, unpack_time};
use crate::v1;

/// Returns a path as text, and as bytes when it is not UTF-8.
pub fn pack_path(path: &Path) -> (String, Bytes) {
    (
        path.to_string_lossy().into_owned(),
        Bytes::copy_from_slice(path.as_os_str().as_bytes()),
    )
}

/// Returns the path of a message. When both forms are set they must agree.
pub fn unpack_path(path: String, path_bytes: Bytes) -> Result<PathBuf> {
    if !path.is_empty() && !path_bytes.is_empty() && String::from_utf8_lossy(&path_bytes) != path {
        return Err(Error::invalid("path", "`path` and `path_bytes` differ")
            .with_hint("set one of them: `path_bytes` only for paths that are not UTF-8"));
    }
    let bytes = if path_bytes.is_empty() {
        path.into_bytes()
    } else {
        path_bytes.into()
    };
    if bytes.is_empty() {
        return Err(Error::invalid("path", "path is empty")
            .with_hint("set a path, for example `/workspace`"));
    }
    if bytes.contains(&0) {
        return Err(Error::invalid("path", "path contains NUL").with_hint("remove the NUL byte"));
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

impl From<EntryType> for v1::EntryType {
    fn from(entry: EntryType) -> Self {
        match entry {
            EntryType::File => Self::File,
            EntryType::Directory => Self::Directory,
            EntryType::Symlink => Self::Symlink,
            EntryType::Fifo => Self::Fifo,
            EntryType::Socket => Self::Socket,
            EntryType::CharDevice => Self::CharDevice,
            EntryType::BlockDevice => Self::BlockDevice,
        }
    }
}

impl TryFrom<v1::EntryType> for EntryType {
    type Error = Error;

    fn try_from(wire: v1::EntryType) -> Result<Self> {
        Ok(match wire {
            v1::EntryType::ENTRY_TYPE_UNSPECIFIED => return Err(missing("entry")),
            v1::EntryType::ENTRY_TYPE_FILE => Self::File,
            v1::EntryType::ENTRY_TYPE_DIRECTORY => Self::Directory,
            v1::EntryType::ENTRY_TYPE_SYMLINK => Self::Symlink,
            v1::EntryType::ENTRY_TYPE_FIFO => Self::Fifo,
            v1::EntryType::ENTRY_TYPE_SOCKET => Self::Socket,
            v1::EntryType::ENTRY_TYPE_CHAR_DEVICE => Self::CharDevice,
            v1::EntryType::ENTRY_TYPE_BLOCK_DEVICE => Self::BlockDevice,
        })
    }
}

impl From<FileStat> for v1::FileStat {
    fn from(stat: FileStat) -> Self {
        let (path, path_bytes) = pack_path(&stat.path);
        let (symlink_target, symlink_target_bytes) = stat
            .symlink_target
            .as_deref()
            .map(pack_path)
            .unwrap_or_default();
        Self {
            path,
            path_bytes,
            entry: v1::EntryType::from(stat.entry).into(),
            size: stat.size.get(),
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            modified: pack_time(stat.modified),
            symlink_target,
            symlink_target_bytes,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::FileStat> for FileStat {
    type Error = Error;

    fn try_from(wire: v1::FileStat) -> Result<Self> {
        let target = wire.symlink_target_bytes;
        Ok(Self {
            path: unpack_path(String::new(), wire.path_bytes)?,
            entry: known("entry", wire.entry)?.try_into()?,
            size: ByteCount(wire.size),
            mode: wire.mode,
            uid: wire.uid,
            gid: wire.gid,
            modified: unpack_time("modified", wire.modified)?,
            symlink_target: if target.is_empty() {
                None
            } else {
                Some(OsString::from_vec(target.into()).into())
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn file_stat_survives_the_wire() {
        for entry in [
            EntryType::File,
            EntryType::Directory,
            EntryType::Fifo,
            EntryType::Socket,
            EntryType::CharDevice,
        ] {
            let sent = FileStat {
                path: OsString::from_vec(b"/a/\xfe".to_vec()).into(),
                entry,
                size: ByteCount(3),
                mode: 0o4755,
                uid: 1,
                gid: 2,
                modified: Timestamp::new(-5, 0).unwrap(),
                symlink_target: None,
            };
            assert_eq!(
                FileStat::try_from(v1::FileStat::from(sent.clone())).unwrap(),
                sent
            );
            let link = FileStat {
                symlink_target: Some(OsString::from_vec(b"\xff".to_vec()).into()),
                ..sent
            };
            assert_eq!(
                FileStat::try_from(v1::FileStat::from(link.clone())).unwrap(),
                link
            );
        }
    }

    #[test]
    fn path_is_text_or_bytes_and_must_not_differ() {
        assert_eq!(
            unpack_path("/a".into(), Bytes::new()).unwrap(),
            Path::new("/a")
        );
        assert_eq!(
            unpack_path(String::new(), Bytes::from_static(b"/a")).unwrap(),
            Path::new("/a")
        );
        assert_eq!(
            unpack_path("/a".into(), Bytes::from_static(b"/a")).unwrap(),
            Path::new("/a")
        );
        for (path, bytes) in [("/a", &b"/b"[..]), ("", b""), ("a\0b", b"")] {
            let error = unpack_path(path.into(), Bytes::from_static(bytes)).unwrap_err();
            assert_eq!(error.field(), Some("path"));
            assert!(error.hint().is_some());
        }
    }
}
