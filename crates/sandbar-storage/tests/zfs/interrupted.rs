//! Remains of a killed host, created by hand for each point at which it can be killed.

use sandbar_core::LaterSnapshots;
use sandbar_storage::Storage;

use crate::support::{Fixture, at, id, snap};

#[test]
fn a_clone_without_its_mark_is_destroyed_by_the_next_start() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    let ready = format!("{}/bases/b@ready", fixture.pool.name());
    fixture
        .pool
        .zfs(&["clone", &ready, &fixture.dataset("half:0")])
        .unwrap();
    fixture.reopen();
    assert_eq!(fixture.volumes(), ["v"]);
    assert_eq!(fixture.on_pool(), ["v:0"]);
    fixture.create("half");
}

#[test]
fn foreign_datasets_are_never_touched() {
    let mut fixture = Fixture::new();
    fixture
        .pool
        .zfs(&["create", &fixture.dataset("theirs")])
        .unwrap();
    fixture
        .pool
        .zfs(&["create", &fixture.dataset("theirs:0")])
        .unwrap();
    fixture
        .pool
        .zfs(&["create", &format!("{}/bases/theirs", fixture.pool.name())])
        .unwrap();
    fixture.reopen();
    fixture.store.settle().unwrap();
    assert_eq!(fixture.on_pool(), ["theirs", "theirs:0"]);
    assert!(fixture.volumes().is_empty());
    assert_eq!(fixture.store.bases().unwrap().len(), 1);
    fixture
        .pool
        .zfs(&["list", &format!("{}/bases/theirs", fixture.pool.name())])
        .unwrap();
}

/// Creates the state right after the clone of a rollback, before any clean-up.
fn killed_in_rollback() -> Fixture {
    let fixture = Fixture::new();
    fixture.create("v");
    for name in ["one", "two", "three"] {
        fixture.write("v", "file", name);
        fixture.snapshot("v", name);
    }
    fixture.fork("v", &at("two"), "f");
    fixture.store.unmount(&id("v")).unwrap();
    let live = fixture.dataset("v:0");
    let mark = fixture
        .pool
        .zfs(&["get", "-H", "-o", "value", "sandbar:volume", &live])
        .unwrap();
    let one = fixture.full_name("one");
    let created = u64::from_str_radix(one.split_once('@').unwrap().1, 16).unwrap();
    let mark = mark.trim().replace('}', &format!(",\"cut\":{created}}}"));
    let mountpoint = fixture
        .pool
        .zfs(&["get", "-H", "-o", "value", "mountpoint", &live])
        .unwrap();
    let mountpoint = format!("mountpoint={}", mountpoint.trim());
    let mark = format!("sandbar:volume={mark}");
    let next = fixture.dataset("v:1");
    fixture
        .pool
        .zfs(&[
            "clone",
            "-o",
            "canmount=noauto",
            "-o",
            &mountpoint,
            "-o",
            &mark,
            &one,
            &next,
        ])
        .unwrap();
    fixture
}

#[test]
fn rollback_killed_after_its_clone_is_finished_at_start() {
    let mut fixture = killed_in_rollback();
    fixture.reopen();
    assert_eq!(fixture.snapshots("v"), ["one"]);
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
    assert_eq!(fixture.read("f", "file").unwrap(), "two");
    fixture.store.settle().unwrap();
    let left: Vec<String> = fixture
        .on_pool()
        .into_iter()
        .filter(|name| !name.contains('@'))
        .collect();
    assert_eq!(left, ["f:0", "v:1"]);
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
}

#[test]
fn rollback_killed_after_promotion_is_finished_at_start() {
    let mut fixture = killed_in_rollback();
    fixture
        .pool
        .zfs(&["promote", &fixture.dataset("v:1")])
        .unwrap();
    fixture.reopen();
    assert_eq!(fixture.snapshots("v"), ["one"]);
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
    assert_eq!(fixture.read("f", "file").unwrap(), "two");
    fixture.store.settle().unwrap();
    let left: Vec<String> = fixture
        .on_pool()
        .into_iter()
        .filter(|name| !name.contains('@'))
        .collect();
    assert_eq!(left, ["f:0", "v:1"]);
}

#[test]
fn deletion_killed_after_its_mark_is_finished_at_start() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    fixture.write("v", "file", "one");
    fixture.snapshot("v", "one");
    fixture.snapshot("v", "two");
    fixture.fork("v", &at("one"), "f");
    fixture.store.unmount(&id("v")).unwrap();
    fixture
        .pool
        .zfs(&["set", "sandbar:deleted=yes", &fixture.dataset("v:0")])
        .unwrap();
    fixture.reopen();
    assert_eq!(fixture.volumes(), ["f"]);
    assert_eq!(fixture.read("f", "file").unwrap(), "one");
    fixture.store.delete(&id("f")).unwrap();
    assert!(fixture.on_pool().is_empty(), "{:?}", fixture.on_pool());
}

#[test]
fn views_of_an_earlier_run_are_gone_after_the_next_start() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    fixture.snapshot("v", "s");
    fixture.store.view(&id("v"), &at("s")).unwrap();
    assert_eq!(fixture.on_pool().len(), 3);
    fixture.reopen();
    assert_eq!(fixture.on_pool().len(), 2);
    fixture.store.view(&id("v"), &at("s")).unwrap();
    fixture.store.close().unwrap();
    assert_eq!(fixture.on_pool().len(), 2);
}

#[test]
fn an_old_generation_left_mounted_gives_way_to_the_live_one() {
    let mut fixture = killed_in_rollback();
    // Both are mounted at one place, the older on top.
    fixture
        .pool
        .zfs(&["unmount", &fixture.dataset("v:1")])
        .unwrap();
    fixture
        .pool
        .zfs(&["mount", &fixture.dataset("v:0")])
        .unwrap();
    fixture.reopen();
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
}
