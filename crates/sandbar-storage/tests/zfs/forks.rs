use sandbar_core::{ErrorCode, LaterSnapshots};
use sandbar_storage::{ForkPoint, Storage, VolumeSpec};

use crate::support::{Fixture, at, base, id, snap};

#[test]
fn a_fork_of_a_dropped_snapshot_lives_on() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    fixture.write("v", "file", "one");
    fixture.snapshot("v", "one");
    fixture.write("v", "file", "two");
    fixture.snapshot("v", "two");
    fixture.fork("v", &at("two"), "f");
    fixture.fork("v", &at("two"), "g");
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    fixture.store.settle().unwrap();
    assert_eq!(fixture.snapshots("v"), ["one"]);
    assert!(
        fixture.snapshots("f").is_empty(),
        "a fork starts without snapshots"
    );
    fixture.reopen();
    assert_eq!(fixture.snapshots("v"), ["one"]);
    for (volume, content) in [("v", "one"), ("f", "two"), ("g", "two")] {
        assert_eq!(fixture.read(volume, "file").unwrap(), content, "{volume}");
    }
    for volume in ["f", "v", "g"] {
        fixture.store.delete(&id(volume)).unwrap();
    }
    assert!(fixture.on_pool().is_empty(), "{:?}", fixture.on_pool());
}

#[test]
fn deleting_a_volume_leaves_its_forks_and_the_forks_of_these() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    for name in ["a", "b", "c"] {
        fixture.write("v", "file", name);
        fixture.snapshot("v", name);
    }
    fixture.fork("v", &at("b"), "f");
    fixture.fork("v", &at("a"), "g");
    fixture.fork("v", &ForkPoint::Now, "h");
    fixture.write("f", "file", "f's own");
    fixture.snapshot("f", "b");
    fixture.fork("f", &at("b"), "k");
    fixture.store.delete(&id("v")).unwrap();
    assert_eq!(fixture.volumes(), ["f", "g", "h", "k"]);
    let expected = [("f", "f's own"), ("g", "a"), ("h", "c"), ("k", "f's own")];
    for (volume, content) in expected {
        assert_eq!(fixture.read(volume, "file").unwrap(), content, "{volume}");
    }
    assert_eq!(
        fixture.snapshots("f"),
        ["b"],
        "the snapshots a fork inherits are not its own"
    );
    fixture.reopen();
    assert_eq!(fixture.snapshots("f"), ["b"]);
    fixture.store.delete(&id("f")).unwrap();
    fixture.store.delete(&id("h")).unwrap();
    for (volume, content) in [("g", "a"), ("k", "f's own")] {
        assert_eq!(fixture.read(volume, "file").unwrap(), content, "{volume}");
    }
    fixture.store.delete(&id("g")).unwrap();
    fixture.store.delete(&id("k")).unwrap();
    assert!(fixture.on_pool().is_empty(), "{:?}", fixture.on_pool());
}

#[test]
fn deleted_snapshot_with_forks_is_hidden_until_the_last_fork() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    fixture.write("v", "file", "then");
    fixture.snapshot("v", "s");
    fixture.fork("v", &at("s"), "f");
    fixture.fork("v", &at("s"), "g");
    fixture.store.delete_snapshot(&id("v"), &snap("s")).unwrap();
    assert!(fixture.snapshots("v").is_empty());
    // The name is free although ZFS still has the snapshot.
    fixture.snapshot("v", "s");
    fixture.reopen();
    assert_eq!(fixture.snapshots("v"), ["s"]);
    assert_eq!(
        fixture
            .on_pool()
            .iter()
            .filter(|name| name.starts_with("v:0@"))
            .count(),
        2
    );
    fixture.store.delete(&id("f")).unwrap();
    assert_eq!(fixture.read("g", "file").unwrap(), "then");
    fixture.store.delete(&id("g")).unwrap();
    assert_eq!(
        fixture
            .on_pool()
            .iter()
            .filter(|name| name.starts_with("v:0@"))
            .count(),
        1
    );
}

#[test]
fn the_hidden_snapshot_below_a_fork_of_now_goes_with_the_fork() {
    let fixture = Fixture::new();
    fixture.create("v");
    fixture.fork("v", &ForkPoint::Now, "f");
    assert!(fixture.snapshots("v").is_empty());
    fixture.store.delete(&id("f")).unwrap();
    assert_eq!(fixture.on_pool(), ["v:0"]);
}

#[test]
fn an_id_can_be_used_again_while_forks_of_its_first_owner_live() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    fixture.write("v", "file", "first");
    fixture.snapshot("v", "s");
    fixture.fork("v", &at("s"), "f");
    fixture.store.delete(&id("v")).unwrap();
    // The new volume is a clone of the fork of the old one, and inherits the old one's snapshot
    // with it.
    fixture.fork("f", &ForkPoint::Now, "v");
    fixture.fork("f", &ForkPoint::Now, "w");
    fixture.store.delete(&id("f")).unwrap();
    fixture.reopen();
    assert!(fixture.snapshots("v").is_empty());
    assert_eq!(fixture.read("v", "file").unwrap(), "first");
    assert_eq!(fixture.read("w", "file").unwrap(), "first");
}

#[test]
fn create_with_taken_id_or_unknown_base_changes_nothing() {
    let fixture = Fixture::new();
    fixture.create("v");
    fixture.write("v", "file", "mine");
    let error = fixture
        .store
        .create(
            &id("v"),
            &VolumeSpec {
                base: base(),
                quota: None,
            },
        )
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionExists);
    let error = fixture
        .store
        .fork(&id("v"), &ForkPoint::Now, &id("v"), None)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionExists);
    let unknown = sandbar_core::BaseName::new("nope").unwrap();
    let error = fixture
        .store
        .create(
            &id("w"),
            &VolumeSpec {
                base: unknown,
                quota: None,
            },
        )
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::BaseNotFound);
    assert!(error.hint().unwrap().contains("`b`"));
    assert_eq!(fixture.on_pool(), ["v:0"]);
    assert_eq!(fixture.read("v", "file").unwrap(), "mine");
}
