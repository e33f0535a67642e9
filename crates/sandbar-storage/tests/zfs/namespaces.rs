#![expect(unsafe_code, reason = "`unshare` affects the whole thread")]

use std::fs;

use rustix::{
    mount::{MountPropagationFlags, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};
use sandbar_core::LaterSnapshots;
use sandbar_storage::{Storage, VolumeSpec, ZfsStorage, zfs::share_mounts};
use sandbar_testing::ZfsPool;

use crate::support::{Fixture, at, base, config, id, make_base, record, snap};

fn mounted_below(directory: &std::path::Path) -> usize {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let targets = table.lines().filter_map(|line| line.split(' ').nth(4));
    targets
        .filter(|target| std::path::Path::new(target).starts_with(directory))
        .count()
}

#[test]
fn host_in_its_own_namespace_sees_later_daemon_mounts() {
    let pool = ZfsPool::new(512 << 20).unwrap();
    let config = config(pool.name());
    share_mounts(&config).unwrap();
    // SAFETY: only the mount namespace is unshared, no descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )
    .unwrap();

    let store = ZfsStorage::open(&config).unwrap();
    make_base(&store);
    let fixture = Fixture { store, pool };
    fixture.create("v");
    fixture.write("v", "file", "one");
    fixture.snapshot("v", "one");
    fixture.write("v", "file", "two");
    fixture.fork("v", &at("one"), "f");
    assert_eq!(fixture.read("f", "file").unwrap(), "one");
    fixture.store.view(&id("v"), &at("one")).unwrap();
    fixture
        .store
        .rollback(&id("v"), &snap("one"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(fixture.read("v", "file").unwrap(), "one");
    fixture.store.unmount(&id("v")).unwrap();
    fixture.store.mount(&id("v")).unwrap();

    // Lent directories are mounted only here, on a dataset that is mounted there.
    let lent = fixture.pool.daemon().directory().join("lent");
    fs::create_dir(&lent).unwrap();
    fs::write(lent.join("tool"), "lent").unwrap();
    let lending = sandbar_core::BaseName::new("lending").unwrap();
    let staged = fixture.store.stage_base(&lending).unwrap();
    fixture
        .store
        .commit_base(
            staged,
            &record(&lending, &[("/usr", lent.to_str().unwrap())]),
        )
        .unwrap();
    fixture
        .store
        .create(
            &id("l"),
            &VolumeSpec {
                base: lending,
                quota: None,
            },
        )
        .unwrap();
    assert_eq!(fixture.read("l", "usr/tool").unwrap(), "lent");

    for volume in ["v", "f", "l"] {
        fixture.store.delete(&id(volume)).unwrap();
    }
    assert!(fixture.on_pool().is_empty(), "{:?}", fixture.on_pool());
    let directory = fixture.pool.daemon().directory().to_owned();
    assert!(mounted_below(&directory) > 3);
    fixture.store.close().unwrap();
    // The pool and the two datasets everything lies under.
    assert_eq!(mounted_below(&directory), 3);
}

#[test]
fn closing_unmounts_volumes_and_bases_and_keeps_data() {
    let mut fixture = Fixture::new();
    fixture.create("v");
    fixture.write("v", "file", "kept");
    fixture.store.base_view(&base()).unwrap();
    let directory = fixture.pool.daemon().directory().to_owned();
    fixture.store.close().unwrap();
    assert_eq!(mounted_below(&directory), 3);
    fixture.reopen();
    assert_eq!(fixture.read("v", "file").unwrap(), "kept");
}
