//! Scratch directories, and comparable descriptions of trees.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{CString, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

/// A directory that is removed with everything in it, however deep, when the test ends or fails.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let removed = sandbar_tree::remove_tree(&self.0);
        // A second panic would hide the first; the leak check finds what is left.
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

/// Makes a directory in `TMPDIR`: that of the test run, or `/var/tmp` as `.cargo/config.toml` says.
pub fn scratch() -> Scratch {
    Scratch(temporary_directory())
}

/// Makes a directory that the caller removes. Its path has `sandbar-test-` in it once: sockets are
/// made below, and a path of theirs is short.
pub(crate) fn temporary_directory() -> PathBuf {
    let in_run = std::env::temp_dir()
        .to_string_lossy()
        .contains("sandbar-test-");
    let prefix = if in_run { "t-" } else { "sandbar-test-" };
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .unwrap()
        .keep()
}

/// Everything about one entry that a faithful copy keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub mode: u32,
    pub owner: (u32, u32),
    pub modified: (i64, i64),
    /// Content of a file, target of a link.
    pub content: Vec<u8>,
    pub device: u64,
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
    /// The first path, in order, that names the same inode.
    pub linked_to: Option<PathBuf>,
}

/// The tree below `root`, the root itself under the empty path.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut paths = vec![PathBuf::new()];
    let mut next = 0;
    while next < paths.len() {
        let full = root.join(&paths[next]);
        if fs::symlink_metadata(&full).unwrap().is_dir() {
            for child in fs::read_dir(&full).unwrap() {
                paths.push(paths[next].join(child.unwrap().file_name()));
            }
        }
        next += 1;
    }
    paths.sort();
    let mut first = HashMap::new();
    paths
        .into_iter()
        .map(|path| {
            let full = root.join(&path);
            let metadata = fs::symlink_metadata(&full).unwrap();
            let kind = metadata.file_type();
            let linked_to = (!metadata.is_dir() && metadata.nlink() > 1).then(|| {
                first
                    .entry((metadata.dev(), metadata.ino()))
                    .or_insert_with(|| path.clone())
                    .clone()
            });
            let content = if kind.is_symlink() {
                fs::read_link(&full).unwrap().into_os_string().into_vec()
            } else if kind.is_file() {
                fs::read(&full).unwrap()
            } else {
                Vec::new()
            };
            let device = if kind.is_char_device() || kind.is_block_device() {
                metadata.rdev()
            } else {
                0
            };
            let entry = Entry {
                mode: metadata.mode(),
                owner: (metadata.uid(), metadata.gid()),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                content,
                device,
                xattrs: xattrs(&full),
                linked_to,
            };
            (path, entry)
        })
        .collect()
}

/// Says where two trees differ, without printing whole files.
pub fn assert_same(left: &BTreeMap<PathBuf, Entry>, right: &BTreeMap<PathBuf, Entry>) {
    let names = |tree: &BTreeMap<PathBuf, Entry>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right));
    for (path, entry) in left {
        let other = &right[path];
        assert!(
            entry.content == other.content,
            "content of {} differs: {} and {} bytes",
            path.display(),
            entry.content.len(),
            other.content.len()
        );
        let bare = |entry: &Entry| Entry {
            content: Vec::new(),
            ..entry.clone()
        };
        assert_eq!(bare(entry), bare(other), "{}", path.display());
    }
}

pub fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut names = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 65536];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            (OsString::from_vec(name.to_vec()), value[..length].to_vec())
        })
        .collect()
}

pub fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

pub fn make_node(path: &Path, kind: FileType, major: u32, minor: u32) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    rustix::fs::mknodat(
        CWD,
        &path,
        kind,
        Mode::from_raw_mode(0o640),
        rustix::fs::makedev(major, minor),
    )
    .unwrap();
}

pub fn set_modified(path: &Path, seconds: i64, nanoseconds: i64) {
    try_set_modified(path, seconds, nanoseconds).unwrap();
}

fn try_set_modified(path: &Path, seconds: i64, nanoseconds: i64) -> rustix::io::Result<()> {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

pub fn set_mode(path: &Path, mode: u32) {
    rustix::fs::chmod(path, Mode::from_raw_mode(mode)).unwrap();
}

/// A file of `size` bytes that is a hole but for `data` at each offset.
pub fn sparse_file(path: &Path, size: u64, data: &[(u64, &[u8])]) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, bytes) in data {
        file.write_all_at(bytes, *offset).unwrap();
    }
    file.sync_all().unwrap();
}

/// A POSIX ACL: owner rwx, user 1234 r-x, group r-x, mask rwx, other nothing.
pub fn acl() -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, permission, id) in [
        (1u16, 7u16, u32::MAX),
        (2, 5, 1234),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        value.extend(tag.to_le_bytes());
        value.extend(permission.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// `cap_net_raw=ep`, as `setcap` writes it.
pub fn capability() -> Vec<u8> {
    let mut value = 0x0200_0001u32.to_le_bytes().to_vec();
    for word in [1u32 << 13, 0, 0, 0] {
        value.extend(word.to_le_bytes());
    }
    value
}

/// One of everything: odd names, all types, holes, links, attributes, special modes, old and odd
/// times.
pub fn one_of_everything(root: &Path) {
    use std::os::unix::fs::{chown, lchown, symlink};
    fs::create_dir_all(root).unwrap();
    let at = |name: &str| root.join(name);
    fs::write(at("plain"), "hello\n").unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(
        root.join(OsString::from_vec(b"caf\xe9 \xff\n\ttab=1".to_vec())),
        "odd name",
    )
    .unwrap();
    fs::write(at(&"n".repeat(255)), "long name").unwrap();
    fs::write(at("setuid"), "#!/bin/sh\n").unwrap();
    chown(at("setuid"), Some(1234), Some(4321)).unwrap();
    set_mode(&at("setuid"), 0o6755);
    fs::write(at("big-owner"), "x").unwrap();
    // zfs-fuse knows no owner above 2^31.
    let big_owner = |group| chown(at("big-owner"), Some(3_000_000), Some(group));
    big_owner(4_000_000_000)
        .or_else(|_| big_owner(2_000_000_000))
        .unwrap();
    fs::create_dir(at("sticky")).unwrap();
    set_mode(&at("sticky"), 0o1777);
    fs::create_dir(at("closed")).unwrap();
    fs::write(at("closed/unreadable"), "secret").unwrap();
    set_mode(&at("closed/unreadable"), 0);
    set_mode(&at("closed"), 0);
    fs::write(at("first-name"), "linked").unwrap();
    fs::hard_link(at("first-name"), at("sticky/second-name")).unwrap();
    fs::hard_link(at("first-name"), at("third-name")).unwrap();
    symlink("/etc/passwd", at("absolute-link")).unwrap();
    symlink(
        OsString::from_vec(b"../\xfe/dangling".to_vec()),
        at("dangling-link"),
    )
    .unwrap();
    symlink("t".repeat(300), at("long-link")).unwrap();
    lchown(at("dangling-link"), Some(7), Some(8)).unwrap();
    fs::hard_link(at("absolute-link"), at("linked-link")).unwrap();
    make_node(&at("pipe"), FileType::Fifo, 0, 0);
    make_node(&at("null"), FileType::CharacterDevice, 1, 3);
    make_node(&at("disk"), FileType::BlockDevice, 7, 300);
    fs::write(at("attributes"), "x").unwrap();
    set_xattr(&at("attributes"), "user.plain", b"value");
    set_xattr(&at("attributes"), "user.empty", b"");
    set_xattr(&at("attributes"), "user.binary=x", b"\0\xff\n\0");
    set_xattr(&at("attributes"), "security.capability", &capability());
    fs::create_dir(at("acl")).unwrap();
    set_xattr(&at("acl"), "system.posix_acl_access", &acl());
    set_xattr(&at("acl"), "system.posix_acl_default", &acl());
    sparse_file(
        &at("holes"),
        5 << 20,
        &[(0, b"start"), (1 << 20, b"middle"), ((5 << 20) - 3, b"end")],
    );
    sparse_file(&at("all-hole"), 3 << 20, &[]);
    sparse_file(&at("hole-at-end"), 2 << 20, &[(4096, b"data")]);
    let mut deep = root.to_owned();
    for level in 0..12 {
        deep.push(format!("{level}-{}", "d".repeat(40)));
        fs::create_dir(&deep).unwrap();
    }
    fs::write(deep.join("bottom"), "deep").unwrap();
    set_modified(&at("plain"), 1_000_000_000, 123_456_789);
    set_modified(&at("empty"), -5, 999_999_999);
    set_modified(&at("dangling-link"), 86_400, 1);
    set_modified(&at("sticky"), 1_234_567_890, 500_000_000);
    // zfs-fuse knows no time after 2038.
    let far_future = |seconds| try_set_modified(&at("holes"), seconds, 7);
    far_future(9_999_999_999)
        .or_else(|_| far_future(2_147_483_000))
        .unwrap();
    set_modified(root, 1_500_000_000, 42);
}

/// Bytes on disk.
pub fn allocated(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().blocks() * 512
}
