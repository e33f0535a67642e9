use sandbar_core::{BaseName, ErrorCode};
use sandbar_storage::{Storage, ZfsStorage};

use crate::support::{Fixture, base, config, id, snap};

/// A second pool under the same daemon.
fn second_pool(fixture: &Fixture) -> ZfsStorage {
    fixture.pool.daemon().pool("second", 256 << 20).unwrap();
    ZfsStorage::open(&config("second")).unwrap()
}

fn with_volume() -> Fixture {
    let fixture = Fixture::new();
    fixture.create("v");
    fixture.write("v", "file", "then");
    std::os::unix::fs::symlink("nowhere", fixture.path("v", "link")).unwrap();
    fixture.snapshot("v", "s");
    fixture.write("v", "file", "now");
    fixture
}

#[test]
fn volume_moves_to_another_pool_with_and_without_its_base() {
    let fixture = with_volume();
    let second = second_pool(&fixture);
    let mut stream = Vec::new();
    fixture.store.export_base(&base(), &mut stream).unwrap();
    second.import_base(&base(), &mut stream.as_slice()).unwrap();
    assert_eq!(second.base(&base()).unwrap().name, base());
    let guid = second.base_guid(&base()).unwrap();
    assert_eq!(fixture.store.base_guid(&base()).unwrap(), guid);

    let (mut whole, mut difference) = (Vec::new(), Vec::new());
    fixture
        .store
        .export_stream(&id("v"), &snap("s"), None, &mut whole)
        .unwrap();
    fixture
        .store
        .export_stream(&id("v"), &snap("s"), Some(guid), &mut difference)
        .unwrap();
    assert!(
        difference.len() < whole.len(),
        "{} {}",
        difference.len(),
        whole.len()
    );
    second
        .import_stream(&id("whole"), &base(), None, &mut whole.as_slice())
        .unwrap();
    second
        .import_stream(&id("difference"), &base(), None, &mut difference.as_slice())
        .unwrap();
    let second = ZfsStorage::open(&config("second")).unwrap();
    for volume in ["whole", "difference"] {
        let root = second.mount(&id(volume)).unwrap();
        assert_eq!(std::fs::read_to_string(root.join("file")).unwrap(), "then");
        assert_eq!(
            std::fs::read_to_string(root.join("hello")).unwrap(),
            "from the base"
        );
        assert_eq!(
            std::fs::read_link(root.join("link")).unwrap().to_str(),
            Some("nowhere")
        );
        assert!(second.snapshots(&id(volume)).unwrap().is_empty());
        second.snapshot(&id(volume), &snap("mine")).unwrap();
    }
    let origin = fixture
        .pool
        .zfs(&[
            "get",
            "-H",
            "-o",
            "value",
            "origin",
            "second/sessions/difference:0",
        ])
        .unwrap();
    assert_eq!(
        origin.trim(),
        "second/bases/b@ready",
        "the difference shares its base with the receiving pool"
    );
    second.delete(&id("whole")).unwrap();
    second.delete(&id("difference")).unwrap();
    second.delete_base(&base()).unwrap();
}

#[test]
fn a_broken_stream_leaves_nothing() {
    let fixture = with_volume();
    let mut stream = Vec::new();
    fixture
        .store
        .export_stream(&id("v"), &snap("s"), None, &mut stream)
        .unwrap();
    for broken in [&stream[..stream.len() / 2], b"not a stream"] {
        fixture
            .store
            .import_stream(&id("w"), &base(), None, &mut &broken[..])
            .unwrap_err();
    }
    assert_eq!(fixture.volumes(), ["v"]);
    assert_eq!(fixture.on_pool().len(), 2, "{:?}", fixture.on_pool());
    fixture
        .store
        .import_stream(&id("w"), &base(), None, &mut stream.as_slice())
        .unwrap();
    assert_eq!(fixture.read("w", "file").unwrap(), "then");
}

#[test]
fn a_half_received_volume_is_destroyed_by_the_next_start() {
    let mut fixture = with_volume();
    let snapshot = fixture.full_name("s");
    let send = format!(
        "zfs send {snapshot} | zfs receive -u {}",
        fixture.dataset("w:r00ff")
    );
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &send])
            .status()
            .unwrap()
            .success()
    );
    fixture.reopen();
    assert_eq!(fixture.volumes(), ["v"]);
    assert_eq!(fixture.on_pool().len(), 2, "{:?}", fixture.on_pool());
}

#[test]
fn taken_names_and_unknown_ones_are_refused() {
    let fixture = with_volume();
    let mut stream = Vec::new();
    fixture
        .store
        .export_stream(&id("v"), &snap("s"), None, &mut stream)
        .unwrap();
    let taken = fixture
        .store
        .import_stream(&id("v"), &base(), None, &mut stream.as_slice())
        .unwrap_err();
    assert_eq!(taken.code(), ErrorCode::SessionExists);
    let unknown = BaseName::new("nope").unwrap();
    let missing = fixture
        .store
        .import_stream(&id("w"), &unknown, None, &mut stream.as_slice())
        .unwrap_err();
    assert_eq!(missing.code(), ErrorCode::BaseNotFound);
    let gone = fixture
        .store
        .export_stream(&id("v"), &snap("t"), None, &mut Vec::new())
        .unwrap_err();
    assert_eq!(gone.code(), ErrorCode::SnapshotNotFound);
}
