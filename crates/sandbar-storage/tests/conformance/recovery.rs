use std::fs;

use sandbar_core::LaterSnapshots;
use sandbar_testing::{Backend, StorageFixture, tree};

use crate::snapshots::{names, snap};

pub(crate) fn reopened_storage_lists_everything(backend: Backend) {
    let mut fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    tree::one_of_everything(&root.join("workspace/all"));
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fs::write(root.join("after"), "x").unwrap();
    let before = tree::tree(&root);
    fixture.reopen();
    assert_eq!(fixture.storage.bases().unwrap().len(), 1);
    assert_eq!(
        fixture.storage.volumes().unwrap(),
        std::slice::from_ref(&volume)
    );
    assert_eq!(names(&*fixture.storage, &volume), ["s"]);
    tree::assert_same(
        &before,
        &tree::tree(&fixture.storage.mount(&volume).unwrap()),
    );
    fixture
        .storage
        .rollback(&volume, &snap("s"), LaterSnapshots::Drop)
        .unwrap();
    assert!(
        !fixture
            .storage
            .mount(&volume)
            .unwrap()
            .join("after")
            .exists()
    );
}

pub(crate) fn incomplete_objects_are_removed_on_open(backend: Backend) {
    let mut fixture = StorageFixture::new(backend);
    let staged = fixture
        .storage
        .stage_base(&"draft".parse().unwrap())
        .unwrap();
    let left_behind = staged.rootfs();
    fs::write(left_behind.join("file"), "x").unwrap();
    // As if the process had been killed here: nothing is undone.
    std::mem::forget(staged);
    fixture.reopen();
    assert!(!left_behind.exists());
    assert_eq!(fixture.storage.bases().unwrap().len(), 1);
    drop(
        fixture
            .storage
            .stage_base(&"draft".parse().unwrap())
            .unwrap(),
    );
}

pub(crate) fn volume_in_use_is_deleted(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    let held = fs::File::create(root.join("held-open")).unwrap();
    // A volume in use by something that does not let go is deleted all the same.
    fixture.storage.delete(&volume).unwrap();
    assert!(fixture.storage.volumes().unwrap().is_empty());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(
        !mounts
            .lines()
            .any(|line| line.split(' ').nth(1) == root.to_str()),
        "{mounts}"
    );
    drop(held);
    fixture.storage.settle().unwrap();
}
