use std::{fs, os::unix::fs::MetadataExt, path::Path};

use sandbar_core::LaterSnapshots;
use sandbar_testing::{Backend, StorageFixture, tree};

/// Changes every entry below `root` in some way, and adds new ones.
fn change_everything(root: &Path) {
    for path in tree::tree(root).into_keys().rev() {
        let full = root.join(&path);
        let Ok(metadata) = fs::symlink_metadata(&full) else {
            continue;
        };
        if path.as_os_str().is_empty() {
            continue;
        }
        if metadata.is_dir() {
            let _ = fs::remove_dir_all(&full);
        } else {
            fs::remove_file(&full).unwrap();
        }
        if metadata.is_file() {
            fs::create_dir(&full).unwrap();
            fs::write(full.join("inside"), "a directory now").unwrap();
        } else if metadata.is_dir() {
            fs::write(&full, "a file now").unwrap();
        }
    }
    fs::write(root.join("added"), "new").unwrap();
    tree::set_mode(root, 0o700);
}

pub(crate) fn everything_survives_snapshot_change_everything_rollback(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    tree::one_of_everything(&root.join("workspace/all"));
    tree::one_of_everything(&root.join("usr/share/doc/deep/all"));
    fs::remove_file(root.join("usr/bin/tool-4")).unwrap();
    let before = tree::tree(&root);
    let sparse = tree::allocated(&root.join("workspace/all/holes"));
    fixture
        .storage
        .snapshot(&volume, &"s".parse().unwrap())
        .unwrap();
    change_everything(&root);
    assert!(tree::tree(&root).keys().ne(before.keys()));
    fixture
        .storage
        .rollback(&volume, &"s".parse().unwrap(), LaterSnapshots::Drop)
        .unwrap();
    let root = fixture.storage.mount(&volume).unwrap();
    tree::assert_same(&before, &tree::tree(&root));
    assert!(
        tree::allocated(&root.join("workspace/all/holes")) <= sparse.max(1 << 20),
        "holes were filled"
    );
}

pub(crate) fn a_deep_tree_survives_snapshot_and_rollback(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let mut deep = fixture.storage.mount(&volume).unwrap().join("workspace");
    for level in 0..150 {
        deep.push(format!("level-{level}"));
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), "deep").unwrap();
    fixture
        .storage
        .snapshot(&volume, &"s".parse().unwrap())
        .unwrap();
    fs::remove_dir_all(
        fixture
            .storage
            .mount(&volume)
            .unwrap()
            .join("workspace/level-0"),
    )
    .unwrap();
    fixture
        .storage
        .rollback(&volume, &"s".parse().unwrap(), LaterSnapshots::Drop)
        .unwrap();
    fixture.storage.mount(&volume).unwrap();
    assert_eq!(fs::read(deep.join("bottom")).unwrap(), b"deep");
}

/// Deeper than any path the kernel takes: only descriptors reach the bottom.
pub(crate) fn tree_deeper_than_path_max_is_snapshotted_and_deleted(backend: Backend) {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = openat(
        CWD,
        fixture.storage.mount(&volume).unwrap(),
        flags,
        Mode::empty(),
    )
    .unwrap();
    let name = "d".repeat(200);
    for _ in 0..60 {
        mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = openat(&directory, &name, flags, Mode::empty()).unwrap();
    }
    drop(directory);
    fixture.storage.usage(&volume).unwrap();
    fixture
        .storage
        .snapshot(&volume, &"s".parse().unwrap())
        .unwrap();
    fixture
        .storage
        .rollback(&volume, &"s".parse().unwrap(), LaterSnapshots::Drop)
        .unwrap();
    fixture.storage.usage(&volume).unwrap();
    fixture.storage.delete(&volume).unwrap();
    fixture.storage.settle().unwrap();
    assert!(fixture.storage.volumes().unwrap().is_empty());
}

/// Snapshots, runs `change`, rolls back and checks that the tree is unchanged.
fn comes_back(backend: Backend, change: impl FnOnce(&Path)) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    let before = tree::tree(&root);
    fixture
        .storage
        .snapshot(&volume, &"s".parse().unwrap())
        .unwrap();
    change(&root);
    fixture
        .storage
        .snapshot(&volume, &"changed".parse().unwrap())
        .unwrap();
    let changed = tree::tree(&root);
    fixture
        .storage
        .rollback(&volume, &"s".parse().unwrap(), LaterSnapshots::Keep)
        .unwrap();
    tree::assert_same(
        &before,
        &tree::tree(&fixture.storage.mount(&volume).unwrap()),
    );
    fixture
        .storage
        .rollback(&volume, &"changed".parse().unwrap(), LaterSnapshots::Keep)
        .unwrap();
    tree::assert_same(
        &changed,
        &tree::tree(&fixture.storage.mount(&volume).unwrap()),
    );
}

pub(crate) fn a_deleted_base_directory_comes_back(backend: Backend) {
    comes_back(backend, |root| {
        fs::remove_dir_all(root.join("usr")).unwrap();
    });
}

pub(crate) fn a_base_directory_replaced_by_a_file_comes_back(backend: Backend) {
    comes_back(backend, |root| {
        fs::remove_dir_all(root.join("usr/share")).unwrap();
        fs::write(root.join("usr/share"), "a file now").unwrap();
    });
}

pub(crate) fn recreated_base_directory_does_not_show_old_files(backend: Backend) {
    comes_back(backend, |root| {
        fs::remove_dir_all(root.join("usr/bin")).unwrap();
        fs::create_dir(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/new"), "new").unwrap();
        assert_eq!(fs::read_dir(root.join("usr/bin")).unwrap().count(), 1);
    });
}

pub(crate) fn a_renamed_file_of_the_base_moves(backend: Backend) {
    comes_back(backend, |root| {
        fs::rename(root.join("usr/bin/tool-2"), root.join("workspace/tool-2")).unwrap();
        assert!(!root.join("usr/bin/tool-2").exists());
        assert_eq!(
            fs::read_to_string(root.join("workspace/tool-2")).unwrap(),
            "tool 2\n"
        );
    });
}

pub(crate) fn an_appended_base_file_keeps_its_mode_and_owner(backend: Backend) {
    comes_back(backend, |root| {
        let path = root.join("etc/config");
        tree::set_mode(&path, 0o640);
        std::os::unix::fs::chown(&path, Some(1000), Some(1001)).unwrap();
        std::io::Write::write_all(
            &mut fs::OpenOptions::new().append(true).open(&path).unwrap(),
            b"more\n",
        )
        .unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(
            (metadata.mode() & 0o7777, metadata.uid(), metadata.gid()),
            (0o640, 1000, 1001)
        );
        assert_eq!(fs::read_to_string(path).unwrap(), "key = value\nmore\n");
    });
}
