use std::{fs, io::Write as _, path::Path};

use sandbar_core::{ByteCount, ErrorCode, LaterSnapshots, SessionId};
use sandbar_storage::{ForkPoint, VolumeSpec};
use sandbar_testing::{Backend, StorageFixture};

use crate::{snapshots::snap, volumes::write_bytes};

/// Writes until the kernel refuses; returns how much went in.
fn fill(path: &Path, most: usize) -> usize {
    let Ok(mut file) = fs::File::create(path) else {
        return 0;
    };
    let mut written = 0;
    let chunk: Vec<u8> = (0..1u32 << 20)
        .map(|byte| byte.wrapping_mul(2_654_435_761).to_be_bytes()[1])
        .collect();
    while written < most {
        if file
            .write_all(&chunk)
            .and_then(|()| file.sync_data())
            .is_err()
        {
            break;
        }
        written += chunk.len();
    }
    written
}

/// Creates a volume with a quota; `None` where the backend has none, after checking that it reports
/// this.
fn limited(fixture: &StorageFixture, name: &str, quota: ByteCount) -> Option<SessionId> {
    let volume: SessionId = name.parse().unwrap();
    let outcome = fixture.storage.create(
        &volume,
        &VolumeSpec {
            base: fixture.base.clone(),
            quota: Some(quota),
        },
    );
    if let Some(reason) = fixture.storage.facts().quota.reason() {
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidArgument, Some("quota"))
        );
        assert!(error.message().contains(reason));
        assert!(fixture.storage.volumes().unwrap().is_empty());
        return None;
    }
    outcome.unwrap();
    Some(volume)
}

pub(crate) fn a_quota_stops_the_writer_and_nothing_else(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let Some(volume) = limited(&fixture, "limited", ByteCount::mib(32)) else {
        return;
    };
    let root = fixture.storage.mount(&volume).unwrap();
    let written = fill(&root.join("big"), 100 << 20);
    assert!(
        (8 << 20..=40 << 20).contains(&written),
        "{written} bytes went in"
    );
    let neighbour = fixture.volume("neighbour");
    let elsewhere = fixture.storage.mount(&neighbour).unwrap();
    assert_eq!(fill(&elsewhere.join("big"), 64 << 20), 64 << 20);
    // The one at its limit can still be read, snapshotted, forked, and deleted.
    assert!(fs::metadata(root.join("big")).unwrap().len() > 0);
    fixture.storage.snapshot(&volume, &snap("full")).unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Now, &"fork".parse().unwrap(), None)
        .unwrap();
    fixture.storage.delete(&volume).unwrap();
}

pub(crate) fn a_lifted_quota_lets_the_writer_go_on(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let Some(volume) = limited(&fixture, "limited", ByteCount::mib(16)) else {
        return;
    };
    let root = fixture.storage.mount(&volume).unwrap();
    assert!(fill(&root.join("big"), 64 << 20) < 32 << 20);
    fixture.storage.set_quota(&volume, None).unwrap();
    assert_eq!(fill(&root.join("bigger"), 64 << 20), 64 << 20);
    fixture
        .storage
        .set_quota(&volume, Some(ByteCount::mib(16)))
        .unwrap();
    assert!(fill(&root.join("more"), 64 << 20) < 8 << 20);
}

pub(crate) fn a_quota_survives_rollback(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let Some(volume) = limited(&fixture, "limited", ByteCount::mib(16)) else {
        return;
    };
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fixture
        .storage
        .rollback(&volume, &snap("s"), LaterSnapshots::Drop)
        .unwrap();
    let root = fixture.storage.mount(&volume).unwrap();
    assert!(fill(&root.join("big"), 64 << 20) < 32 << 20);
}

pub(crate) fn a_full_pool_is_storage_full_and_deleting_works(backend: Backend) {
    // XFS does not make a smaller one.
    let fixture = StorageFixture::with_size(backend, 320);
    let volume = fixture.volume("greedy");
    let keeper = fixture.volume("keeper");
    fs::write(fixture.storage.mount(&keeper).unwrap().join("f"), "kept").unwrap();
    fixture.storage.snapshot(&keeper, &snap("s")).unwrap();
    let root = fixture.storage.mount(&volume).unwrap();
    write_bytes(&root.join("half"), 32 << 20);
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    let written = fill(&root.join("big"), 2 << 30);
    assert!(written < 1 << 30, "the pool never filled");
    let mut refused = Vec::new();
    for number in 0..20_000 {
        let path = root.join(format!("small-{number}"));
        if let Err(error) = fs::write(path, [7; 3000]) {
            refused.push(error.kind());
            if refused.len() > 20 {
                break;
            }
        }
    }
    assert!(
        refused.contains(&std::io::ErrorKind::StorageFull),
        "{refused:?}"
    );
    // Calls that need space may fail, with the right error and no leftovers.
    let fork: SessionId = "fork".parse().unwrap();
    if let Err(error) = fixture.storage.fork(&volume, &ForkPoint::Now, &fork, None) {
        assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
        assert!(!fixture.storage.volumes().unwrap().contains(&fork));
    }
    fixture.storage.delete(&fork).unwrap();
    fixture.storage.delete(&volume).unwrap();
    fixture.storage.settle().unwrap();
    assert_eq!(
        fixture.storage.volumes().unwrap(),
        std::slice::from_ref(&keeper)
    );
    assert_eq!(
        fs::read(fixture.storage.mount(&keeper).unwrap().join("f")).unwrap(),
        b"kept"
    );
    let next = fixture.volume("next");
    assert!(
        fill(&fixture.storage.mount(&next).unwrap().join("big"), 64 << 20) >= 64 << 20,
        "no space came back"
    );
}

pub(crate) fn space_is_reported(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let space = fixture.storage.space().unwrap();
    assert!(space.healthy, "{space:?}");
    assert!(
        space.total >= ByteCount::mib(200) && space.total <= ByteCount::mib(600),
        "{space:?}"
    );
    assert!(
        space.available > ByteCount::mib(100) && space.available <= space.total,
        "{space:?}"
    );
    assert!((0.0..0.7).contains(&space.used_share()));
}
