//! Imports by an ordinary user.

use std::{
    fs,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::fs::FileType;
use sandbar_core::{BaseName, StorageKind};
use sandbar_storage::{ImportSource, StorageConfig, import_base, open};
use sandbar_testing::{
    ORDINARY_USER, again_as_user,
    tree::{make_node, set_mode},
};
use sandbar_tree::archive::ArchiveWriter;

fn source(scratch: &Path) {
    let root = scratch.join("source");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/motd"), "hello").unwrap();
    fs::hard_link(root.join("etc/motd"), root.join("etc/motd-again")).unwrap();
    fs::write(root.join("etc/shadow"), "secret").unwrap();
    set_mode(&root.join("etc/shadow"), 0o600);
    fs::create_dir(root.join("closed")).unwrap();
    set_mode(&root.join("closed"), 0o500);
    make_node(&root.join("null"), FileType::CharacterDevice, 1, 3);
    make_node(&root.join("pipe"), FileType::Fifo, 0, 0);
    let mut writer = ArchiveWriter::new(fs::File::create(scratch.join("source.tar")).unwrap());
    let directory = fs::File::open(scratch).unwrap();
    writer
        .append_tree(directory.as_fd(), Path::new("source"), Path::new("."))
        .unwrap();
    writer.finish().unwrap();
}

#[test]
fn an_ordinary_user_imports_bases_of_every_kind() {
    if rustix::process::geteuid().is_root() {
        return again_as_user(
            "ordinary_user::an_ordinary_user_imports_bases_of_every_kind",
            source,
        );
    }
    let config = StorageConfig {
        choice: Some(StorageKind::LocalDisk),
        directory: "pool".into(),
        zfs: None,
        pool_image_limit: None,
    };
    let storage = open(&config).unwrap().storage;
    for (name, source) in [
        ("directory", "../source"),
        ("archive", "../source.tar"),
        ("machine", "host"),
    ] {
        let base = BaseName::new(name).unwrap();
        import_base(
            &*storage,
            &base,
            &ImportSource::parse(source).unwrap(),
            &|_| {},
        )
        .unwrap();
        let root = Path::new("pool/bases").join(name).join("rootfs");
        assert_eq!(
            fs::metadata(root.join("workspace")).unwrap().uid(),
            ORDINARY_USER
        );
        assert!(root.join("etc").is_dir());
    }
}
