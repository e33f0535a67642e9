use std::fs;

use sandbar_core::{ErrorCode, LaterSnapshots, SessionId};
use sandbar_storage::ForkPoint;
use sandbar_testing::{Backend, StorageFixture, tree};

use crate::snapshots::{names, snap};

/// A volume whose file `f` held `one`, `two`, `three` at the snapshots of these names, and holds
/// `four` now.
fn four_steps(backend: Backend) -> (StorageFixture, SessionId) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    for step in ["one", "two", "three"] {
        fs::write(root.join("f"), step).unwrap();
        fs::write(root.join(format!("only-{step}")), step).unwrap();
        fixture.storage.snapshot(&volume, &snap(step)).unwrap();
    }
    fs::write(root.join("f"), "four").unwrap();
    (fixture, volume)
}

fn content(fixture: &StorageFixture, volume: &SessionId) -> String {
    fs::read_to_string(fixture.storage.mount(volume).unwrap().join("f")).unwrap()
}

pub(crate) fn rollback_drops_later_snapshots(backend: Backend) {
    let (fixture, volume) = four_steps(backend);
    fixture
        .storage
        .rollback(&volume, &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(content(&fixture, &volume), "one");
    assert!(
        !fixture
            .storage
            .mount(&volume)
            .unwrap()
            .join("only-two")
            .exists()
    );
    assert_eq!(names(&*fixture.storage, &volume), ["one"]);
}

pub(crate) fn rollback_keeps_later_snapshots_when_asked(backend: Backend) {
    let (fixture, volume) = four_steps(backend);
    fixture
        .storage
        .rollback(&volume, &snap("one"), LaterSnapshots::Keep)
        .unwrap();
    assert_eq!(content(&fixture, &volume), "one");
    assert_eq!(names(&*fixture.storage, &volume), ["one", "two", "three"]);
}

pub(crate) fn rollback_goes_forward_again_to_a_kept_snapshot(backend: Backend) {
    let (fixture, volume) = four_steps(backend);
    for step in ["one", "three", "two", "three", "one"] {
        fixture
            .storage
            .rollback(&volume, &snap(step), LaterSnapshots::Keep)
            .unwrap();
        assert_eq!(content(&fixture, &volume), step);
        assert_eq!(names(&*fixture.storage, &volume), ["one", "two", "three"]);
    }
}

pub(crate) fn rollback_to_an_unknown_snapshot_changes_nothing(backend: Backend) {
    let (fixture, volume) = four_steps(backend);
    let root = fixture.storage.mount(&volume).unwrap();
    let before = tree::tree(&root);
    let error = fixture
        .storage
        .rollback(&volume, &snap("onne"), LaterSnapshots::Drop)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::SnapshotNotFound);
    tree::assert_same(&before, &tree::tree(&root));
    assert_eq!(names(&*fixture.storage, &volume), ["one", "two", "three"]);
}

pub(crate) fn rollback_twice_gives_the_same_tree(backend: Backend) {
    let (fixture, volume) = four_steps(backend);
    fixture
        .storage
        .rollback(&volume, &snap("two"), LaterSnapshots::Drop)
        .unwrap();
    let first = tree::tree(&fixture.storage.mount(&volume).unwrap());
    fixture
        .storage
        .rollback(&volume, &snap("two"), LaterSnapshots::Drop)
        .unwrap();
    tree::assert_same(
        &first,
        &tree::tree(&fixture.storage.mount(&volume).unwrap()),
    );
    assert_eq!(names(&*fixture.storage, &volume), ["one", "two"]);
}

pub(crate) fn rollback_does_not_touch_forks(backend: Backend) {
    let (fixture, volume) = four_steps(backend);
    let (old, new): (SessionId, SessionId) =
        ("from-three".parse().unwrap(), "from-now".parse().unwrap());
    fixture
        .storage
        .fork(&volume, &ForkPoint::Snapshot(snap("three")), &old, None)
        .unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Now, &new, None)
        .unwrap();
    fixture
        .storage
        .rollback(&volume, &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(names(&*fixture.storage, &volume), ["one"]);
    assert_eq!(content(&fixture, &volume), "one");
    assert_eq!(content(&fixture, &old), "three");
    assert_eq!(content(&fixture, &new), "four");
    fixture.storage.snapshot(&volume, &snap("three")).unwrap();
    fixture.storage.delete(&volume).unwrap();
    assert_eq!(content(&fixture, &old), "three");
}

pub(crate) fn snapshots_continue_after_rollback(backend: Backend) {
    let (fixture, volume) = four_steps(backend);
    fixture
        .storage
        .rollback(&volume, &snap("two"), LaterSnapshots::Keep)
        .unwrap();
    fs::write(fixture.storage.mount(&volume).unwrap().join("f"), "branch").unwrap();
    fixture.storage.snapshot(&volume, &snap("branch")).unwrap();
    assert_eq!(
        names(&*fixture.storage, &volume),
        ["one", "two", "three", "branch"]
    );
    for (step, expected) in [("three", "three"), ("branch", "branch"), ("one", "one")] {
        fixture
            .storage
            .rollback(&volume, &snap(step), LaterSnapshots::Keep)
            .unwrap();
        assert_eq!(content(&fixture, &volume), expected);
    }
    fixture
        .storage
        .rollback(&volume, &snap("two"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(names(&*fixture.storage, &volume), ["one", "two"]);
}

pub(crate) fn snapshots_dropped_by_rollback_stay_dropped(backend: Backend) {
    let mut fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let take = |fixture: &StorageFixture, name: &str| {
        fixture
            .storage
            .snapshot(&volume, &snap(name))
            .map(drop)
            .unwrap();
    };
    let go = |fixture: &StorageFixture, name: &str, later| {
        fixture
            .storage
            .rollback(&volume, &snap(name), later)
            .unwrap();
    };
    take(&fixture, "root");
    take(&fixture, "branch");
    go(&fixture, "root", LaterSnapshots::Keep);
    take(&fixture, "one");
    go(&fixture, "branch", LaterSnapshots::Keep);
    // It lies beside a snapshot that stays.
    take(&fixture, "dropped");
    go(&fixture, "one", LaterSnapshots::Drop);
    let fork = "fork".parse().unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Now, &fork, None)
        .unwrap();
    take(&fixture, "two");
    go(&fixture, "two", LaterSnapshots::Keep);
    assert_eq!(
        names(&*fixture.storage, &volume),
        ["root", "branch", "one", "two"]
    );
    fixture.reopen();
    assert_eq!(
        names(&*fixture.storage, &volume),
        ["root", "branch", "one", "two"]
    );
    take(&fixture, "dropped");
}
