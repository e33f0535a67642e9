//! The mount table of the calling thread's namespace.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use sandbar_core::{Error, Result};

/// Mounts of the calling thread's namespace, in the order of creation.
#[derive(Debug, Default)]
pub(super) struct MountTable(Vec<Mount>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) target: PathBuf,
    /// `zfs`, or `fuse.zfs` with zfs-fuse.
    pub(super) kind: String,
    /// Dataset, for ZFS mounts.
    pub(super) source: String,
}

impl Mount {
    pub(super) fn is_zfs(&self) -> bool {
        matches!(self.kind.as_str(), "zfs" | "fuse.zfs")
    }
}

impl MountTable {
    pub(super) fn read() -> Result<Self> {
        // Not `/proc/self`, which is the namespace of the main thread.
        let path = "/proc/thread-self/mountinfo";
        let table = fs::read(path).map_err(|error| Error::io(format!("read `{path}`"), error))?;
        Ok(Self::parse(&table))
    }

    pub(super) fn parse(table: &[u8]) -> Self {
        let mounts = table.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let target = fields.nth(4)?;
            let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
            let (kind, source) = (rest.next()?, rest.next()?);
            Some(Mount {
                target: PathBuf::from(unescape(target)),
                kind: String::from_utf8_lossy(kind).into_owned(),
                source: unescape(source).to_string_lossy().into_owned(),
            })
        });
        Self(mounts.collect())
    }

    /// Returns the topmost mount at a mount point.
    pub(super) fn at(&self, target: &Path) -> Option<&Mount> {
        self.0.iter().rev().find(|mount| mount.target == target)
    }

    pub(super) fn shows(&self, dataset: &str, target: &Path) -> bool {
        self.at(target)
            .is_some_and(|mount| mount.is_zfs() && mount.source == dataset)
    }

    /// Returns the mount points of all datasets of a pool.
    pub(super) fn of_pool(&self, pool: &str) -> impl Iterator<Item = &Path> {
        let is_of_pool = move |mount: &&Mount| {
            let rest = mount.source.strip_prefix(pool);
            mount.is_zfs() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.0
            .iter()
            .filter(is_of_pool)
            .map(|mount| mount.target.as_path())
    }

    /// Returns the mounts of one dataset.
    pub(super) fn of_dataset<'a>(&'a self, dataset: &'a str) -> impl Iterator<Item = &'a Mount> {
        self.0
            .iter()
            .filter(move |mount| mount.is_zfs() && mount.source == dataset)
    }

    /// Returns the mounts below a directory, newest first.
    pub(super) fn below<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = &'a Mount> {
        self.0
            .iter()
            .rev()
            .filter(move |mount| mount.target != directory && mount.target.starts_with(directory))
    }
}

/// Decodes the octal escapes of the mount table.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let ([b'\\', a, b, c, after @ ..], true) = (rest, *first == b'\\') {
            let digits = [*a, *b, *c];
            let code = std::str::from_utf8(&digits)
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 8).ok());
            if let Some(code) = code {
                bytes.push(code);
                rest = after;
                continue;
            }
        }
        bytes.push(*first);
        rest = tail;
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        66 43 0:42 / /tank/sessions rw,relatime shared:1 - fuse.zfs tank/sessions rw,user_id=0\n\
        67 66 0:43 / /tank/sessions/a\\040b rw,relatime master:2 - zfs tank/sessions/ab:0 rw,xattr\n\
        68 66 0:44 / /tank/sessions/c rw - fuse.zfs tank/sessions/c:0 rw\n\
        69 68 0:45 / /tank/sessions/c rw - fuse.zfs tank/sessions/c:1 rw\n\
        70 69 8:1 /usr /tank/sessions/c/rootfs/usr ro - ext4 /dev/vda rw\n";

    #[test]
    fn shows_considers_the_topmost_mount() {
        let table = MountTable::parse(TABLE);
        assert!(table.shows("tank/sessions/c:1", "/tank/sessions/c".as_ref()));
        assert!(!table.shows("tank/sessions/c:0", "/tank/sessions/c".as_ref()));
        assert!(table.shows("tank/sessions", "/tank/sessions".as_ref()));
        assert!(!table.shows("proc", "/proc".as_ref()));
    }

    #[test]
    fn parse_unescapes_names_and_skips_optional_fields() {
        let table = MountTable::parse(TABLE);
        assert!(table.shows("tank/sessions/ab:0", "/tank/sessions/a b".as_ref()));
        assert_eq!(unescape(b"a\\134b\\"), OsString::from("a\\b\\"));
    }

    #[test]
    fn below_returns_the_newest_mount_first() {
        let table = MountTable::parse(TABLE);
        let below: Vec<_> = table
            .below("/tank/sessions/c".as_ref())
            .map(|mount| mount.target.clone())
            .collect();
        assert_eq!(below, [PathBuf::from("/tank/sessions/c/rootfs/usr")]);
    }
}
