//! Storage against raw baselines, in one run: ratios, not times.
//!
//! Baseline and subject take turns, so that both see the same machine, and the middle of each is
//! compared. Run it with `make bench`, as root.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop"
)]

use std::{fs, path::Path, time::Instant};

use sandbar_core::{LaterSnapshots, SessionId, SnapshotName};
use sandbar_storage::{ForkPoint, Storage, VolumeSpec};
use sandbar_testing::{
    Backend, StorageFixture,
    measure::{Report, alternate, middle, milliseconds},
    owner_map, raw_storage as raw,
};

const FEW: usize = 10;
const MANY: usize = 50_000;
const ROUNDS: usize = 40;

fn main() {
    // `cargo test --benches` and nextest's listing call a bench, too; there is nothing to measure
    // then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let mut report = Report::default();
    for backend in [
        Backend::BtrfsImage,
        Backend::Zfs,
        Backend::LocalDiskXfs,
        Backend::LocalDiskExt4,
    ] {
        let fixture = StorageFixture::with_size(backend, 6144);
        size_independence(&fixture, backend, &mut report);
        creation(&fixture, backend, &mut report);
        translation(&fixture, backend, &mut report);
        rollback(&fixture, backend, &mut report);
        if backend == Backend::BtrfsImage {
            snapshot_against_ioctl(&fixture, &mut report);
        }
        many_forks(&fixture, backend, &mut report);
    }
    report.print();
}

fn snap(name: impl Into<String>) -> SnapshotName {
    SnapshotName::new(name).unwrap()
}

fn id(name: impl Into<String>) -> SessionId {
    SessionId::new(name).unwrap()
}

/// Creates a volume with the given number of small files.
fn volume_with_files(fixture: &StorageFixture, name: &str, files: usize) -> SessionId {
    let volume = fixture.volume(name);
    let root = fixture.storage.mount(&volume).unwrap();
    write_files(&root.join("workspace"), files);
    volume
}

fn write_files(directory: &Path, files: usize) {
    for number in 0..files {
        let place = directory.join(format!("d{}", number / 500));
        if number % 500 == 0 {
            fs::create_dir_all(&place).unwrap();
        }
        fs::write(place.join(format!("f{number}")), format!("file {number}\n")).unwrap();
    }
    rustix::fs::sync();
}

/// Snapshot and fork of 50 000 files over the same of 10.
fn size_independence(fixture: &StorageFixture, backend: Backend, report: &mut Report) {
    let storage = &*fixture.storage;
    let small = volume_with_files(fixture, "few", FEW);
    let large = volume_with_files(fixture, "many", MANY);
    let rounds = if backend == Backend::LocalDiskXfs || backend == Backend::LocalDiskExt4 {
        3
    } else {
        ROUNDS
    };
    let aim = matches!(backend, Backend::BtrfsImage | Backend::Zfs).then_some(1.5);
    let (few, many) = alternate(
        rounds,
        |round| take(storage, &small, round),
        |round| take(storage, &large, round),
    );
    report.ratio(
        format!("{backend:?}: snapshot of {MANY} files ÷ of {FEW}"),
        middle(&many),
        middle(&few),
        aim,
    );
    let (few, many) = alternate(
        rounds,
        |round| copy(storage, &small, round),
        |round| copy(storage, &large, round),
    );
    report.ratio(
        format!("{backend:?}: fork of {MANY} files ÷ of {FEW}"),
        middle(&many),
        middle(&few),
        aim,
    );
    storage.delete(&large).unwrap();
    storage.delete(&small).unwrap();
    storage.settle().unwrap();
}

fn take(storage: &dyn Storage, volume: &SessionId, round: usize) -> f64 {
    let name = snap(format!("s{round}"));
    let started = Instant::now();
    storage.snapshot(volume, &name).unwrap();
    let took = milliseconds(started);
    storage.delete_snapshot(volume, &name).unwrap();
    took
}

fn copy(storage: &dyn Storage, volume: &SessionId, round: usize) -> f64 {
    let fork = id(format!("{volume}-fork-{round}"));
    let started = Instant::now();
    storage.fork(volume, &ForkPoint::Now, &fork, None).unwrap();
    let took = milliseconds(started);
    storage.delete(&fork).unwrap();
    took
}

/// A new volume, mounted, over the mount of an overlay alone.
fn creation(fixture: &StorageFixture, backend: Backend, report: &mut Report) {
    let storage = &*fixture.storage;
    // On the same file system as ours; zfs-fuse cannot carry an overlay, so there it is the
    // machine's own disk.
    let scratch = match backend {
        Backend::BtrfsImage => fixture.config.directory.join("pool/raw-overlay"),
        Backend::Zfs => fixture.scratch().join("raw-overlay"),
        _ => fixture.config.directory.join("raw-overlay"),
    };
    let (raw, ours) = alternate(
        ROUNDS,
        |round| raw::overlay_mount(&scratch, round),
        |round| {
            let volume = id(format!("new-{round}"));
            let started = Instant::now();
            storage
                .create(
                    &volume,
                    &VolumeSpec {
                        base: fixture.base.clone(),
                        quota: None,
                    },
                )
                .unwrap();
            storage.mount(&volume).unwrap();
            let took = milliseconds(started);
            storage.delete(&volume).unwrap();
            took
        },
    );
    report.ratio(
        format!("{backend:?}: create and mount a volume ÷ raw overlay mount"),
        middle(&ours),
        middle(&raw),
        None,
    );
}

/// A mount with translated owners over one with those on disk.
fn translation(fixture: &StorageFixture, backend: Backend, report: &mut Report) {
    let storage = &*fixture.storage;
    let volume = fixture.volume("owners");
    let owners = owner_map(1_000_000);
    if !storage.mount_as(&volume, Some(&owners)).unwrap().translated {
        return storage.delete(&volume).unwrap();
    }
    let mount = |owners| {
        storage.unmount(&volume).unwrap();
        let started = Instant::now();
        storage.mount_as(&volume, owners).unwrap();
        milliseconds(started)
    };
    let (plain, translated) = alternate(ROUNDS * 3, |_| mount(None), |_| mount(Some(&owners)));
    report.ratio(
        format!("{backend:?}: mount with translated owners ÷ with those on disk"),
        middle(&translated),
        middle(&plain),
        None,
    );
    storage.delete(&volume).unwrap();
}

fn rollback(fixture: &StorageFixture, backend: Backend, report: &mut Report) {
    let storage = &*fixture.storage;
    let volume = volume_with_files(fixture, "back", FEW);
    storage.snapshot(&volume, &snap("s")).unwrap();
    let (snapshots, rollbacks) = alternate(
        ROUNDS,
        |round| take(storage, &volume, round),
        |round| {
            fs::write(
                storage.mount(&volume).unwrap().join("workspace/change"),
                round.to_string(),
            )
            .unwrap();
            let started = Instant::now();
            storage
                .rollback(&volume, &snap("s"), LaterSnapshots::Keep)
                .unwrap();
            milliseconds(started)
        },
    );
    report.ratio(
        format!("{backend:?}: rollback ÷ snapshot"),
        middle(&rollbacks),
        middle(&snapshots),
        None,
    );
    storage.delete(&volume).unwrap();
}

/// Our snapshot over the bare ioctl on a subvolume with the same files in the same pool.
fn snapshot_against_ioctl(fixture: &StorageFixture, report: &mut Report) {
    let storage = &*fixture.storage;
    let volume = volume_with_files(fixture, "ours", FEW);
    let pool = fixture.config.directory.join("pool");
    raw::create_subvolume(&pool, "raw");
    write_files(&pool.join("raw"), FEW);
    let (bare, ours) = alternate(
        ROUNDS * 3,
        |round| raw::snapshot(&pool, "raw", &format!("raw-{round}")),
        |round| take(storage, &volume, round),
    );
    report.ratio(
        "BtrfsImage: snapshot ÷ raw ioctl".into(),
        middle(&ours),
        middle(&bare),
        Some(1.3),
    );
    raw::destroy(&pool, "raw");
    storage.delete(&volume).unwrap();
}

/// Bytes the pool holds, as exactly as its file system says.
fn used_bytes(fixture: &StorageFixture, backend: Backend) -> u64 {
    if backend == Backend::BtrfsImage {
        return raw::used_bytes(&fixture.config.directory.join("pool"));
    }
    let space = fixture.storage.space().unwrap();
    space.total.get() - space.available.get()
}

/// A hundred forks of a gibibyte: time and extra space of each.
fn many_forks(fixture: &StorageFixture, backend: Backend, report: &mut Report) {
    const FORKS: u32 = 100;
    let storage = &*fixture.storage;
    if backend == Backend::LocalDiskExt4 {
        // A hundred full copies do not fit, and O(data) is what this one promises.
        return;
    }
    let volume = fixture.volume("gibibyte");
    let root = storage.mount(&volume).unwrap();
    let block: Vec<u8> = (0..1u32 << 20)
        .map(|byte| byte.wrapping_mul(2_654_435_761).to_be_bytes()[1])
        .collect();
    for number in 0..1024 {
        fs::write(root.join(format!("workspace/{number}")), &block).unwrap();
    }
    rustix::fs::sync();
    storage.settle().unwrap();
    let before = used_bytes(fixture, backend);
    let started = Instant::now();
    for number in 0..FORKS {
        storage
            .fork(
                &volume,
                &ForkPoint::Now,
                &id(format!("fork-{number}")),
                None,
            )
            .unwrap();
    }
    let each = milliseconds(started) / f64::from(FORKS);
    storage.settle().unwrap();
    let extra = used_bytes(fixture, backend).saturating_sub(before) / u64::from(FORKS) / 1024;
    let aims = (backend == Backend::BtrfsImage).then_some((5.0, 64.0));
    report.figure(
        format!("{backend:?}: fork of 1 GiB, each of {FORKS}"),
        each,
        "ms",
        aims.map(|aims| aims.0),
    );
    #[expect(clippy::cast_precision_loss, reason = "kibibytes of a fork are few")]
    report.figure(
        format!("{backend:?}: extra space of such a fork"),
        extra as f64,
        "KiB",
        aims.map(|aims| aims.1),
    );
    for number in 0..FORKS {
        storage.delete(&id(format!("fork-{number}"))).unwrap();
    }
    storage.delete(&volume).unwrap();
}
