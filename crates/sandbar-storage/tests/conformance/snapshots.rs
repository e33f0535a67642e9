use std::fs;

use sandbar_core::{ErrorCode, LaterSnapshots, SessionId, SnapshotName};
use sandbar_storage::Storage;
use sandbar_testing::{Backend, StorageFixture, tree};

pub(crate) fn snap(name: &str) -> SnapshotName {
    name.parse().unwrap()
}

pub(crate) fn names(storage: &dyn Storage, volume: &SessionId) -> Vec<String> {
    storage
        .snapshots(volume)
        .unwrap()
        .into_iter()
        .map(|snapshot| snapshot.name.to_string())
        .collect()
}

pub(crate) fn snapshots_are_listed_oldest_first(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    assert!(names(&*fixture.storage, &volume).is_empty());
    for name in ["zebra", "apple", "mango", "turn-0001"] {
        let made = fixture.storage.snapshot(&volume, &snap(name)).unwrap();
        assert_eq!(made.name, snap(name));
    }
    assert_eq!(
        names(&*fixture.storage, &volume),
        ["zebra", "apple", "mango", "turn-0001"]
    );
}

pub(crate) fn a_snapshot_name_is_taken_once(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    let error = fixture.storage.snapshot(&volume, &snap("s")).unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::SnapshotExists, Some("snapshot"))
    );
    assert_eq!(names(&*fixture.storage, &volume), ["s"]);
}

pub(crate) fn a_snapshot_does_not_change_with_the_volume(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("f"), "one").unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    // In place, so that a snapshot that shared the inode would show it.
    std::os::unix::fs::FileExt::write_all_at(
        &fs::OpenOptions::new()
            .write(true)
            .open(root.join("f"))
            .unwrap(),
        b"two",
        0,
    )
    .unwrap();
    fs::remove_dir_all(root.join("usr")).unwrap();
    let fork: SessionId = "fork".parse().unwrap();
    fixture
        .storage
        .fork(
            &volume,
            &sandbar_storage::ForkPoint::Snapshot(snap("s")),
            &fork,
            None,
        )
        .unwrap();
    let forked = fixture.storage.mount(&fork).unwrap();
    assert_eq!(fs::read(forked.join("f")).unwrap(), b"one");
    assert!(forked.join("usr/bin/tool-0").exists());
    assert_eq!(fs::read(root.join("f")).unwrap(), b"two");
}

pub(crate) fn an_unknown_snapshot_is_refused_and_the_known_ones_are_named(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    fixture.storage.snapshot(&volume, &snap("known")).unwrap();
    let point = sandbar_storage::ForkPoint::Snapshot(snap("unknown"));
    for error in [
        fixture
            .storage
            .rollback(&volume, &snap("unknown"), LaterSnapshots::Drop)
            .unwrap_err(),
        fixture
            .storage
            .fork(&volume, &point, &"fork".parse().unwrap(), None)
            .unwrap_err(),
        fixture.storage.view(&volume, &point).unwrap_err(),
    ] {
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::SnapshotNotFound, Some("snapshot"))
        );
        assert!(error.hint().unwrap().contains("`known`"));
    }
    assert_eq!(fixture.storage.volumes().unwrap(), [volume]);
}

pub(crate) fn a_deleted_snapshot_is_gone_and_its_name_is_free(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fixture
        .storage
        .delete_snapshot(&volume, &snap("s"))
        .unwrap();
    assert!(names(&*fixture.storage, &volume).is_empty());
    fs::write(root.join("later"), "x").unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fs::remove_file(root.join("later")).unwrap();
    fixture
        .storage
        .rollback(&volume, &snap("s"), LaterSnapshots::Drop)
        .unwrap();
    assert!(
        fixture
            .storage
            .mount(&volume)
            .unwrap()
            .join("later")
            .exists()
    );
}

pub(crate) fn deleting_a_snapshot_twice_is_fine(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fixture
        .storage
        .delete_snapshot(&volume, &snap("s"))
        .unwrap();
    fixture
        .storage
        .delete_snapshot(&volume, &snap("s"))
        .unwrap();
}

pub(crate) fn a_snapshot_of_an_unknown_volume_is_refused(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let missing: SessionId = "missing".parse().unwrap();
    assert_eq!(
        fixture
            .storage
            .snapshot(&missing, &snap("s"))
            .unwrap_err()
            .code(),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        fixture.storage.snapshots(&missing).unwrap_err().code(),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        fixture.storage.usage(&missing).unwrap_err().code(),
        ErrorCode::SessionNotFound
    );
    assert!(fixture.storage.volumes().unwrap().is_empty());
}

pub(crate) fn snapshot_of_a_mounted_volume_has_recent_writes(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("unsynced"), vec![7; 3 << 20]).unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    let expected = tree::tree(&root);
    fs::remove_file(root.join("unsynced")).unwrap();
    fixture
        .storage
        .rollback(&volume, &snap("s"), LaterSnapshots::Drop)
        .unwrap();
    tree::assert_same(
        &expected,
        &tree::tree(&fixture.storage.mount(&volume).unwrap()),
    );
}

pub(crate) fn a_hundred_snapshots_of_one_volume(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    for number in 0..100 {
        fs::write(root.join("counter"), number.to_string()).unwrap();
        fixture
            .storage
            .snapshot(&volume, &snap(&format!("turn-{number:04}")))
            .unwrap();
    }
    let expected: Vec<String> = (0..100).map(|number| format!("turn-{number:04}")).collect();
    assert_eq!(names(&*fixture.storage, &volume), expected);
    fixture
        .storage
        .rollback(&volume, &snap("turn-0042"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(
        fs::read_to_string(fixture.storage.mount(&volume).unwrap().join("counter")).unwrap(),
        "42"
    );
    assert_eq!(names(&*fixture.storage, &volume), expected[..43]);
}
