//! Random trees for property tests.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt, path::Path};

use crate::tree::{make_node, set_mode, set_modified, set_xattr, sparse_file, tree};
use rustix::fs::FileType;

/// One entry of a random tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// Indexes into the directories and files made before.
    parent: usize,
    name: Vec<u8>,
    what: What,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    xattrs: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum What {
    Directory,
    File(Vec<u8>),
    Sparse(Vec<(u16, u8)>, u32),
    Symlink(Vec<u8>),
    HardLink(usize),
    Fifo,
}

pub fn random_tree() -> impl proptest::strategy::Strategy<Value = Vec<Node>> {
    use proptest::prelude::*;
    let byte = any::<u8>().prop_map(|byte| {
        if byte == 0 || byte == b'/' {
            b'_'
        } else {
            byte
        }
    });
    let name = prop_oneof![
        4 => prop::collection::vec(byte.clone(), 1..12),
        1 => prop::collection::vec(byte.clone(), 90..255),
    ]
    .prop_filter("no name", |name| name != b"." && name != b"..");
    let what = prop_oneof![
        3 => Just(What::Directory),
        4 => prop::collection::vec(any::<u8>(), 0..3000).prop_map(What::File),
        1 => (prop::collection::vec((any::<u16>(), any::<u8>()), 0..6), 1u32..3_000_000).prop_map(|(data, size)| What::Sparse(data, size)),
        1 => prop::collection::vec(byte, 1..200).prop_map(What::Symlink),
        2 => any::<usize>().prop_map(What::HardLink),
        1 => Just(What::Fifo),
    ];
    let owner = prop_oneof![0u32..70_000, 2_000_000u32..4_000_000_000];
    let xattr = (
        "user\\.[a-z%=]{1,20}",
        prop::collection::vec(any::<u8>(), 0..200),
    );
    let node = (
        any::<usize>(),
        name,
        what,
        0u32..0o10000,
        (owner.clone(), owner),
        (-2_000_000_000i64..10_000_000_000, 0i64..1_000_000_000),
        prop::collection::vec(xattr, 0..3),
    )
        .prop_map(|(parent, name, what, mode, owner, modified, xattrs)| Node {
            parent,
            name,
            what,
            mode,
            owner,
            modified,
            xattrs,
        });
    prop::collection::vec(node, 0..40)
}

impl Node {
    /// Makes this node somewhere below `root`; a name that is taken is left as it is.
    pub fn make(&self, root: &Path) {
        use std::os::unix::fs::{lchown, symlink};
        fs::create_dir_all(root).unwrap();
        let entries = tree(root);
        let directories: Vec<_> = entries
            .iter()
            .filter(|(_, entry)| entry.mode & 0o170_000 == 0o040_000)
            .collect();
        let path = root
            .join(directories[self.parent % directories.len()].0)
            .join(OsString::from_vec(self.name.clone()));
        if fs::symlink_metadata(&path).is_ok() || path.as_os_str().len() > 3000 {
            return;
        }
        match &self.what {
            What::Directory => fs::create_dir(&path).unwrap(),
            What::File(content) => fs::write(&path, content).unwrap(),
            What::Sparse(data, size) => {
                let data: Vec<_> = data
                    .iter()
                    .map(|(block, byte)| (u64::from(*block) * 64, [*byte; 100]))
                    .collect();
                let data: Vec<_> = data
                    .iter()
                    .map(|(offset, bytes)| (*offset, &bytes[..]))
                    .collect();
                sparse_file(&path, (*size).into(), &data);
            }
            What::Symlink(target) => symlink(OsString::from_vec(target.clone()), &path).unwrap(),
            What::HardLink(index) => {
                let files: Vec<_> = entries
                    .iter()
                    .filter(|(_, entry)| entry.mode & 0o170_000 != 0o040_000)
                    .collect();
                if !files.is_empty() {
                    fs::hard_link(root.join(files[index % files.len()].0), &path).unwrap();
                }
                return;
            }
            What::Fifo => make_node(&path, FileType::Fifo, 0, 0),
        }
        lchown(&path, Some(self.owner.0), Some(self.owner.1)).unwrap();
        if !matches!(self.what, What::Symlink(_) | What::Fifo) {
            for (name, value) in &self.xattrs {
                set_xattr(&path, name, value);
            }
        }
        if !matches!(self.what, What::Symlink(_)) {
            set_mode(&path, self.mode);
        }
        set_modified(&path, self.modified.0, self.modified.1);
    }
}
