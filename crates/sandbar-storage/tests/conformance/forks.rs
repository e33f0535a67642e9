use std::fs;

use sandbar_core::{ErrorCode, SessionId};
use sandbar_storage::ForkPoint;
use sandbar_testing::{Backend, StorageFixture, tree};

use crate::snapshots::{names, snap};

fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

pub(crate) fn fork_of_now_has_the_current_content(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    tree::one_of_everything(&root.join("workspace/all"));
    fs::remove_dir_all(root.join("usr/share")).unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Now, &id("fork"), None)
        .unwrap();
    tree::assert_same(
        &tree::tree(&root),
        &tree::tree(&fixture.storage.mount(&id("fork")).unwrap()),
    );
}

pub(crate) fn fork_of_a_snapshot_has_the_content_of_the_snapshot(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("f"), "then").unwrap();
    let then = tree::tree(&root);
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fs::write(root.join("f"), "now").unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Snapshot(snap("s")), &id("fork"), None)
        .unwrap();
    tree::assert_same(
        &then,
        &tree::tree(&fixture.storage.mount(&id("fork")).unwrap()),
    );
    assert_eq!(fs::read(root.join("f")).unwrap(), b"now");
}

pub(crate) fn siblings_never_see_each_others_writes(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("shared"), vec![0; 1 << 20]).unwrap();
    let forks: Vec<SessionId> = (0..5).map(|number| id(&format!("fork-{number}"))).collect();
    for fork in &forks {
        fixture
            .storage
            .fork(&volume, &ForkPoint::Now, fork, None)
            .unwrap();
    }
    for (number, fork) in forks.iter().enumerate() {
        let root = fixture.storage.mount(fork).unwrap();
        let file = fs::OpenOptions::new()
            .write(true)
            .open(root.join("shared"))
            .unwrap();
        std::os::unix::fs::FileExt::write_all_at(
            &file,
            &[u8::try_from(number).unwrap() + 1; 4096],
            8192,
        )
        .unwrap();
        fs::write(root.join(format!("own-{number}")), "x").unwrap();
    }
    for (number, fork) in forks.iter().enumerate() {
        let root = fixture.storage.mount(fork).unwrap();
        let mut expected = vec![0; 1 << 20];
        expected[8192..12288].fill(u8::try_from(number).unwrap() + 1);
        assert!(fs::read(root.join("shared")).unwrap() == expected);
        let own: Vec<_> = (0..5)
            .filter(|other| root.join(format!("own-{other}")).exists())
            .collect();
        assert_eq!(own, [number]);
    }
    assert!(
        fs::read(root.join("shared"))
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
}

pub(crate) fn a_fork_survives_its_source(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    fs::write(fixture.storage.mount(&volume).unwrap().join("f"), "kept").unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Now, &id("now"), None)
        .unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Snapshot(snap("s")), &id("then"), None)
        .unwrap();
    fixture.storage.delete(&volume).unwrap();
    fixture.storage.settle().unwrap();
    for fork in ["now", "then"] {
        let root = fixture.storage.mount(&id(fork)).unwrap();
        assert_eq!(fs::read(root.join("f")).unwrap(), b"kept");
        assert!(root.join("usr/bin/tool-0").exists());
    }
    let mut left = fixture.storage.volumes().unwrap();
    left.sort();
    assert_eq!(left, [id("now"), id("then")]);
    // The name of the source is free again, forks or not.
    fixture.volume("v");
}

pub(crate) fn a_fork_survives_the_snapshot_it_came_from(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    fs::write(fixture.storage.mount(&volume).unwrap().join("f"), "kept").unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Snapshot(snap("s")), &id("fork"), None)
        .unwrap();
    fixture
        .storage
        .delete_snapshot(&volume, &snap("s"))
        .unwrap();
    assert!(names(&*fixture.storage, &volume).is_empty());
    fixture.storage.settle().unwrap();
    assert_eq!(
        fs::read(fixture.storage.mount(&id("fork")).unwrap().join("f")).unwrap(),
        b"kept"
    );
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    assert_eq!(names(&*fixture.storage, &volume), ["s"]);
}

pub(crate) fn a_fork_of_a_fork_of_a_fork(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let mut source = fixture.volume("generation-0");
    for generation in 1..=6 {
        let root = fixture.storage.mount(&source).unwrap();
        fs::write(root.join(format!("from-{}", generation - 1)), "x").unwrap();
        let next = id(&format!("generation-{generation}"));
        fixture
            .storage
            .fork(&source, &ForkPoint::Now, &next, None)
            .unwrap();
        fixture.storage.delete(&source).unwrap();
        source = next;
    }
    let root = fixture.storage.mount(&source).unwrap();
    assert!((0..6).all(|generation| root.join(format!("from-{generation}")).exists()));
    assert_eq!(fixture.storage.volumes().unwrap(), [source.clone()]);
    fixture.storage.delete(&source).unwrap();
    fixture.storage.settle().unwrap();
    fixture.storage.delete_base(&fixture.base).unwrap();
}

pub(crate) fn a_fork_has_no_snapshots_of_its_source(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fixture
        .storage
        .fork(&volume, &ForkPoint::Now, &id("fork"), None)
        .unwrap();
    assert!(names(&*fixture.storage, &id("fork")).is_empty());
    fixture.storage.snapshot(&id("fork"), &snap("s")).unwrap();
    assert_eq!(names(&*fixture.storage, &volume), ["s"]);
}

pub(crate) fn a_fork_to_a_taken_id_is_refused(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let other = fixture.volume("other");
    fs::write(fixture.storage.mount(&other).unwrap().join("mine"), "x").unwrap();
    for taken in [&volume, &other] {
        let error = fixture
            .storage
            .fork(&volume, &ForkPoint::Now, taken, None)
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionExists);
    }
    assert!(fixture.storage.mount(&other).unwrap().join("mine").exists());
    let missing = fixture
        .storage
        .fork(&id("missing"), &ForkPoint::Now, &id("fork"), None)
        .unwrap_err();
    assert_eq!(missing.code(), ErrorCode::SessionNotFound);
}
