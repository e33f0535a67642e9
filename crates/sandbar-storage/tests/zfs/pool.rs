use std::{fs::File, io::Write};

use sandbar_core::{ByteCount, ErrorCode, LaterSnapshots};
use sandbar_storage::{Storage, VolumeSpec, ZfsStorage};
use sandbar_testing::ZfsDaemon;

use crate::support::{Fixture, at, base, config, id, snap};

/// Writes incompressible bytes until the pool is full; returns their number.
fn fill(fixture: &Fixture, volume: &str, file: &str) -> u64 {
    // Without space for a name there is none for content.
    let Ok(mut file) = File::create(fixture.path(volume, file)) else {
        return 0;
    };
    let mut written = 0;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for size in [64 * 1024, 4096] {
        let mut block = vec![0; size];
        loop {
            for chunk in block.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                chunk.copy_from_slice(&state.to_le_bytes());
            }
            if file.write_all(&block).is_err() {
                break;
            }
            written += size as u64;
        }
    }
    let _ = file.sync_all();
    written
}

#[test]
fn a_quota_stops_its_volume_and_no_other() {
    let fixture = Fixture::new();
    let quota = Some(ByteCount::mib(8));
    fixture
        .store
        .create(
            &id("v"),
            &VolumeSpec {
                base: base(),
                quota,
            },
        )
        .unwrap();
    fixture.create("w");
    let written = fill(&fixture, "v", "big");
    assert!((4 << 20..=9 << 20).contains(&written), "{written}");
    fixture.write("w", "file", "fine");
    // Snapshots do not count, and a fork brings its own bound.
    fixture.snapshot("v", "full");
    std::fs::remove_file(fixture.path("v", "big")).unwrap();
    assert!(fill(&fixture, "v", "again") > 4 << 20);
    fixture
        .store
        .fork(&id("v"), &at("full"), &id("f"), Some(ByteCount::mib(32)))
        .unwrap();
    let written = fill(&fixture, "f", "more");
    assert!((16 << 20..=25 << 20).contains(&written), "{written}");
    fixture
        .store
        .rollback(&id("v"), &snap("full"), LaterSnapshots::Drop)
        .unwrap();
    assert!(
        fill(&fixture, "v", "more") < 1 << 20,
        "the bound goes along with a rollback"
    );
    fixture
        .store
        .set_quota(&id("v"), Some(ByteCount::mib(16)))
        .unwrap();
    assert!(fill(&fixture, "v", "much more") > 4 << 20);
    fixture
        .store
        .set_quota(&id("v"), Some(ByteCount::mib(1)))
        .unwrap();
    assert!(
        fill(&fixture, "v", "too much") < 2 << 20,
        "a bound below what is there stops the writer too"
    );
    fixture.store.set_quota(&id("v"), None).unwrap();
    assert!(fill(&fixture, "v", "most") > 16 << 20);
}

#[test]
fn full_pool_is_storage_full_and_deletes_volumes_with_forks() {
    let mut fixture = Fixture::of_size(ByteCount::mib(128));
    fixture.create("v");
    fixture.write("v", "file", "kept");
    fixture.snapshot("v", "s");
    fixture.fork("v", &at("s"), "f");
    fixture.fork("v", &at("s"), "g");
    fill(&fixture, "v", "big");
    let error = fixture.store.snapshot(&id("v"), &snap("t")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
    let error = fixture
        .store
        .create(
            &id("w"),
            &VolumeSpec {
                base: base(),
                quota: None,
            },
        )
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
    assert_eq!(fixture.volumes(), ["f", "g", "v"]);
    fixture.store.delete_snapshot(&id("v"), &snap("s")).unwrap();
    fixture.store.delete(&id("v")).unwrap();
    fixture.store.settle().unwrap();
    assert_eq!(fixture.volumes(), ["f", "g"]);
    assert_eq!(fixture.read("f", "file").unwrap(), "kept");
    assert!(fixture.store.space().unwrap().available > ByteCount::mib(64));
    // The reserve is back for the next time.
    fill(&fixture, "f", "big");
    fixture.reopen();
    fixture.store.delete(&id("f")).unwrap();
    assert_eq!(fixture.read("g", "file").unwrap(), "kept");
}

#[test]
fn a_full_pool_can_be_rolled_back() {
    let fixture = Fixture::of_size(ByteCount::mib(128));
    fixture.create("v");
    fixture.write("v", "file", "then");
    fixture.snapshot("v", "s");
    fixture.write("v", "file", "now");
    fill(&fixture, "v", "big");
    fixture
        .store
        .rollback(&id("v"), &snap("s"), LaterSnapshots::Drop)
        .unwrap();
    assert_eq!(fixture.read("v", "file").unwrap(), "then");
    fixture.store.settle().unwrap();
    assert!(fixture.store.space().unwrap().available > ByteCount::mib(64));
}

#[test]
fn usage_counts_the_writes_of_the_session() {
    let fixture = Fixture::new();
    fixture.create("v");
    assert!(fixture.store.usage(&id("v")).unwrap().used < ByteCount::mib(1));
    let mut file = File::create(fixture.path("v", "big")).unwrap();
    file.write_all(&vec![7; 20 << 20]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    fixture.snapshot("v", "s");
    let used = fixture.store.usage(&id("v")).unwrap().used;
    assert!(
        (ByteCount::mib(19)..ByteCount::mib(22)).contains(&used),
        "{used}"
    );
}

#[test]
fn a_degraded_mirror_works_and_is_not_healthy() {
    let daemon = ZfsDaemon::start().unwrap();
    let devices = daemon.mirror("twins", 128 << 20).unwrap();
    let store = ZfsStorage::open(&config("twins")).unwrap();
    let space = store.space().unwrap();
    assert!(space.healthy && space.state == "ONLINE", "{space:?}");
    assert!(
        space.total > ByteCount::mib(80) && space.available <= space.total,
        "{space:?}"
    );
    daemon
        .run("zpool", &["offline", "twins", devices[0].to_str().unwrap()])
        .unwrap();
    let space = store.space().unwrap();
    assert!(!space.healthy && space.state == "DEGRADED", "{space:?}");
    crate::support::make_base(&store);
    store
        .create(
            &id("v"),
            &VolumeSpec {
                base: base(),
                quota: None,
            },
        )
        .unwrap();
}

#[test]
fn missing_pool_and_bad_names_are_errors_with_hints() {
    let fixture = Fixture::new();
    let error = ZfsStorage::open(&config("nopool")).unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::Unavailable, Some("pool_name"))
    );
    assert!(error.hint().unwrap().contains("zpool import nopool"));
    for bad in ["", "-r", "a b", "tank@x"] {
        assert_eq!(
            ZfsStorage::open(&config(bad)).unwrap_err().code(),
            ErrorCode::InvalidArgument,
            "{bad:?}"
        );
    }
    let mut elsewhere = config(fixture.pool.name());
    elsewhere.sessions_dataset = Some("other/sessions".into());
    assert_eq!(
        ZfsStorage::open(&elsewhere).unwrap_err().field(),
        Some("sessions_dataset")
    );
}

#[test]
fn two_stores_share_a_pool_under_different_datasets() {
    let fixture = Fixture::new();
    let mut other = config(fixture.pool.name());
    other.bases_dataset = Some(format!("{}/team/bases", fixture.pool.name()));
    other.sessions_dataset = Some(format!("{}/team/sessions", fixture.pool.name()));
    let store = ZfsStorage::open(&other).unwrap();
    assert!(store.bases().unwrap().is_empty());
    crate::support::make_base(&store);
    store
        .create(
            &id("v"),
            &VolumeSpec {
                base: base(),
                quota: None,
            },
        )
        .unwrap();
    assert!(fixture.volumes().is_empty());
}
