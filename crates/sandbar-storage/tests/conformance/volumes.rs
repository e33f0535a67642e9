use std::{fs, sync::Arc};

use sandbar_core::{ErrorCode, SessionId};
use sandbar_storage::VolumeSpec;
use sandbar_testing::{Backend, StorageFixture, eventually, small_base, tree};

pub(crate) fn a_new_volume_shows_its_base(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let root = fixture.storage.mount(&fixture.volume("v")).unwrap();
    let expected = fixture.scratch().join("expected");
    fs::create_dir(&expected).unwrap();
    small_base(&expected);
    let mut expected = tree::tree(&expected);
    let mut seen = tree::tree(&root);
    // Times are the base's own; only what small_base decides is compared.
    for entry in expected.values_mut().chain(seen.values_mut()) {
        entry.modified = (0, 0);
    }
    tree::assert_same(&expected, &seen);
}

pub(crate) fn a_volume_id_is_taken_once(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("mine"), "x").unwrap();
    let error = fixture
        .storage
        .create(
            &volume,
            &VolumeSpec {
                base: fixture.base.clone(),
                quota: None,
            },
        )
        .unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::SessionExists, Some("session_id"))
    );
    assert_eq!(fs::read(root.join("mine")).unwrap(), b"x");
}

pub(crate) fn volumes_are_listed(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let made: Vec<SessionId> = ["a", "b.c", "d_e-f"]
        .map(|name| fixture.volume(name))
        .into();
    let mut listed = fixture.storage.volumes().unwrap();
    listed.sort();
    assert_eq!(listed, made);
    assert_eq!(fixture.storage.volume_base(&made[0]).unwrap(), fixture.base);
}

pub(crate) fn a_deleted_volume_is_gone_and_its_id_is_free(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("old"), "x").unwrap();
    fixture
        .storage
        .snapshot(&volume, &"s".parse().unwrap())
        .unwrap();
    fixture.storage.delete(&volume).unwrap();
    assert!(fixture.storage.volumes().unwrap().is_empty());
    assert_eq!(
        fixture.storage.mount(&volume).unwrap_err().code(),
        ErrorCode::SessionNotFound
    );
    let again = fixture.volume("v");
    assert!(!fixture.storage.mount(&again).unwrap().join("old").exists());
    assert!(fixture.storage.snapshots(&again).unwrap().is_empty());
}

pub(crate) fn deleting_a_volume_twice_is_fine(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    fixture.storage.delete(&volume).unwrap();
    fixture.storage.delete(&volume).unwrap();
    fixture
        .storage
        .delete(&"never-made".parse().unwrap())
        .unwrap();
}

pub(crate) fn mounting_twice_gives_the_same_root(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("x"), "x").unwrap();
    assert_eq!(fixture.storage.mount(&volume).unwrap(), root);
    fixture.storage.unmount(&volume).unwrap();
    fixture.storage.unmount(&volume).unwrap();
}

pub(crate) fn content_survives_unmount_and_mount(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    tree::one_of_everything(&root.join("workspace/all"));
    fs::remove_file(root.join("etc/config")).unwrap();
    let before = tree::tree(&root);
    fixture.storage.unmount(&volume).unwrap();
    tree::assert_same(
        &before,
        &tree::tree(&fixture.storage.mount(&volume).unwrap()),
    );
}

pub(crate) fn writes_of_two_volumes_are_isolated(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let (a, b) = (fixture.volume("a"), fixture.volume("b"));
    let (root_a, root_b) = (
        fixture.storage.mount(&a).unwrap(),
        fixture.storage.mount(&b).unwrap(),
    );
    fs::write(root_a.join("etc/config"), "a").unwrap();
    fs::write(root_b.join("etc/config"), "b").unwrap();
    fs::remove_dir_all(root_a.join("usr")).unwrap();
    assert_eq!(fs::read(root_a.join("etc/config")).unwrap(), b"a");
    assert_eq!(fs::read(root_b.join("etc/config")).unwrap(), b"b");
    assert!(root_b.join("usr/bin/tool-0").exists());
}

pub(crate) fn usage_grows_with_writes(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let before = fixture.storage.usage(&volume).unwrap().used;
    let root = fixture.storage.mount(&volume).unwrap();
    write_bytes(&root.join("data"), 8 << 20);
    let after = fixture.storage.usage(&volume).unwrap().used;
    assert!(
        after.get() >= before.get() + (7 << 20),
        "{before} then {after}"
    );
    assert!(
        after.get() <= before.get() + (12 << 20),
        "{before} then {after}"
    );
}

pub(crate) fn deleted_volumes_free_their_space(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    write_bytes(&root.join("data"), 64 << 20);
    fixture
        .storage
        .snapshot(&volume, &"s".parse().unwrap())
        .unwrap();
    let full = fixture.storage.space().unwrap().available;
    fixture.storage.delete(&volume).unwrap();
    fixture.storage.settle().unwrap();
    // Some file systems give space back a moment after they say they did.
    eventually("the space to come back", || {
        fixture.storage.space().unwrap().available.get() > full.get() + (32 << 20)
    });
}

pub(crate) fn many_volumes_at_once(backend: Backend) {
    let fixture = Arc::new(StorageFixture::new(backend));
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let fixture = Arc::clone(&fixture);
            scope.spawn(move || {
                for number in 0..5 {
                    let volume = fixture.volume(&format!("v-{worker}-{number}"));
                    let root = fixture.storage.mount(&volume).unwrap();
                    fs::write(root.join("who"), format!("{worker} {number}")).unwrap();
                    fixture
                        .storage
                        .snapshot(&volume, &"s".parse().unwrap())
                        .unwrap();
                    fs::write(root.join("who"), "changed").unwrap();
                    fixture.storage.unmount(&volume).unwrap();
                    fixture
                        .storage
                        .rollback(
                            &volume,
                            &"s".parse().unwrap(),
                            sandbar_core::LaterSnapshots::Drop,
                        )
                        .unwrap();
                }
            });
        }
    });
    for worker in 0..8 {
        for number in 0..5 {
            let volume: SessionId = format!("v-{worker}-{number}").parse().unwrap();
            let root = fixture.storage.mount(&volume).unwrap();
            assert_eq!(
                fs::read_to_string(root.join("who")).unwrap(),
                format!("{worker} {number}")
            );
        }
    }
}

/// Writes `length` bytes no file system can compress or share, and waits until they are on disk.
pub(crate) fn write_bytes(path: &std::path::Path, length: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes: Vec<u8> = (0..length.div_ceil(8))
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect();
    let file = fs::File::create(path).unwrap();
    std::io::Write::write_all(&mut &file, &bytes[..length]).unwrap();
    file.sync_all().unwrap();
}
