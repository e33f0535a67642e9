use sandbar_core::{ErrorCode, LaterSnapshots};
use sandbar_storage::{ForkPoint, Storage};

use crate::support::{Fixture, at, id, snap};

/// A volume with snapshots `one`, `two`, `three` of a file that says so, and `now` in it at last.
fn with_history() -> Fixture {
    let fixture = Fixture::new();
    fixture.create("v");
    for name in ["one", "two", "three"] {
        fixture.write("v", "file", name);
        fixture.snapshot("v", name);
    }
    fixture.write("v", "file", "now");
    fixture
}

#[test]
fn a_volume_is_one_clone_of_its_base() {
    let fixture = Fixture::new();
    fixture.create("v");
    assert_eq!(fixture.read("v", "hello").unwrap(), "from the base");
    assert_eq!(fixture.on_pool(), ["v:0"]);
}

#[test]
fn rollback_drops_later_snapshots_and_leaves_one_dataset() {
    let mut fixture = with_history();
    let before = fixture.path("v", "file");
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
    assert_eq!(
        fixture.path("v", "file"),
        before,
        "the path of a session outlives a rollback"
    );
    assert_eq!(fixture.snapshots("v"), ["one"]);
    fixture.store.settle().unwrap();
    assert_eq!(fixture.on_pool().len(), 2, "{:?}", fixture.on_pool());
    fixture.reopen();
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
    assert_eq!(fixture.snapshots("v"), ["one"]);
}

#[test]
fn rollback_keeps_later_snapshots_and_goes_forward_again() {
    let mut fixture = with_history();
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Keep)
        .unwrap();
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
    assert_eq!(fixture.snapshots("v"), ["one", "two", "three"]);
    fixture.write("v", "file", "four");
    fixture.snapshot("v", "four");
    fixture
        .store
        .rollback(&id("v"), &snap("three"), LaterSnapshots::Keep)
        .unwrap();
    assert_eq!(fixture.read("v", "file").unwrap(), "three");
    assert_eq!(fixture.snapshots("v"), ["one", "two", "three", "four"]);
    fixture.store.settle().unwrap();
    fixture.reopen();
    assert_eq!(fixture.snapshots("v"), ["one", "two", "three", "four"]);
    for name in ["four", "one", "three", "two"] {
        fixture
            .store
            .rollback(&id("v"), &snap(name), LaterSnapshots::Keep)
            .unwrap();
        assert_eq!(fixture.read("v", "file").unwrap(), name);
    }
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    fixture.store.settle().unwrap();
    assert_eq!(fixture.snapshots("v"), ["one"]);
    assert_eq!(fixture.on_pool().len(), 2, "{:?}", fixture.on_pool());
    fixture.store.delete(&id("v")).unwrap();
    assert!(fixture.on_pool().is_empty(), "{:?}", fixture.on_pool());
}

#[test]
fn deleting_the_origin_snapshot_keeps_both_generations() {
    let mut fixture = with_history();
    fixture
        .store
        .rollback(&id("v"), &snap("two"), LaterSnapshots::Keep)
        .unwrap();
    fixture
        .store
        .delete_snapshot(&id("v"), &snap("two"))
        .unwrap();
    assert_eq!(fixture.snapshots("v"), ["one", "three"]);
    fixture
        .store
        .delete_snapshot(&id("v"), &snap("two"))
        .unwrap();
    fixture.reopen();
    assert_eq!(fixture.snapshots("v"), ["one", "three"]);
    assert_eq!(fixture.read("v", "file").unwrap(), "two");
    // With the last snapshot of the other branch its generation goes, and the hidden `two` with it.
    fixture
        .store
        .delete_snapshot(&id("v"), &snap("three"))
        .unwrap();
    fixture.store.settle().unwrap();
    assert_eq!(fixture.on_pool().len(), 2, "{:?}", fixture.on_pool());
    assert_eq!(fixture.read("v", "file").unwrap(), "two");
}

#[test]
fn a_dropped_name_can_be_taken_again_at_once() {
    let fixture = with_history();
    fixture.fork("v", &at("three"), "f");
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    fixture.snapshot("v", "three");
    assert_eq!(fixture.snapshots("v"), ["one", "three"]);
    let error = fixture
        .store
        .snapshot(&id("v"), &snap("three"))
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::SnapshotExists);
}

#[test]
fn snapshot_is_read_beside_the_live_tree_then_deleted() {
    let fixture = with_history();
    let then = fixture.store.view(&id("v"), &at("one")).unwrap();
    let now = fixture.store.view(&id("v"), &ForkPoint::Now).unwrap();
    let content = |view: &sandbar_storage::TreeView| {
        std::fs::read_to_string(view.layers[0].upper.as_ref().unwrap().join("file")).unwrap()
    };
    assert_eq!(
        (content(&then).as_str(), content(&now).as_str()),
        ("one", "now")
    );
    assert!(then.frozen_at.is_some() && now.frozen_at.is_none());
    fixture.store.view(&id("v"), &at("one")).unwrap();
    fixture
        .store
        .delete_snapshot(&id("v"), &snap("one"))
        .unwrap();
    assert_eq!(fixture.snapshots("v"), ["two", "three"]);
    fixture.store.view(&id("v"), &at("two")).unwrap();
    fixture
        .store
        .rollback(&id("v"), &snap("two"), LaterSnapshots::Drop)
        .unwrap();
    fixture.store.view(&id("v"), &at("two")).unwrap();
    fixture.store.delete(&id("v")).unwrap();
    assert!(fixture.on_pool().is_empty(), "{:?}", fixture.on_pool());
}

#[test]
fn rollback_to_a_missing_snapshot_changes_nothing() {
    let fixture = with_history();
    let error = fixture
        .store
        .rollback(&id("v"), &snap("zero"), LaterSnapshots::Drop)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::SnapshotNotFound);
    assert!(error.hint().unwrap().contains("`two`"));
    assert_eq!(fixture.read("v", "file").unwrap(), "now");
    assert_eq!(fixture.snapshots("v").len(), 3);
}

#[test]
fn foreign_snapshot_is_hidden_and_does_not_block() {
    let mut fixture = with_history();
    fixture
        .pool
        .zfs(&["snapshot", &format!("{}@hourly", fixture.dataset("v:0"))])
        .unwrap();
    fixture.reopen();
    assert_eq!(fixture.snapshots("v"), ["one", "two", "three"]);
    fixture.store.settle().unwrap();
    assert!(fixture.on_pool().contains(&"v:0@hourly".to_owned()));
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
    fixture.store.delete(&id("v")).unwrap();
    assert!(fixture.on_pool().is_empty(), "{:?}", fixture.on_pool());
}

#[test]
fn the_longest_names_are_taken() {
    let fixture = Fixture::new();
    let (volume, name) = ("v".repeat(128), "s".repeat(255));
    fixture.create(&volume);
    fixture.write(&volume, "file", "1");
    fixture.snapshot(&volume, &name);
    fixture.write(&volume, "file", "2");
    fixture
        .store
        .rollback(&id(&volume), &snap(&name), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(fixture.read(&volume, "file").unwrap(), "1");
    assert_eq!(fixture.snapshots(&volume), [name]);
}
