//! A volume packed on one storage is the same volume on another.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use proptest::{prelude::*, test_runner::TestRunner};
use sandbar_core::{BaseName, ErrorCode, SessionId, SnapshotKind, SnapshotName, StorageKind};
use sandbar_storage::{
    ForkPoint, ImportSource, Storage, VolumeSpec, import_base,
    pack::{PackManifest, PackReference, Target, delete_pack, pack, read_manifest, unpack},
};
use sandbar_testing::{
    Backend, MotoS3, StorageFixture,
    tree::{Entry, assert_same, one_of_everything, set_modified, set_xattr, tree},
};

use sandbar_testing::random_tree;

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn snapshot_name(name: &str) -> SnapshotName {
    SnapshotName::new(name).unwrap()
}

/// The base both sides import. Its directory lies in the first fixture's scratch.
fn base_directory(scratch: &Path) -> PathBuf {
    let root = scratch.join("base");
    if !root.exists() {
        sandbar_testing::small_base(&root);
    }
    root
}

fn import(storage: &dyn Storage, directory: &Path) -> BaseName {
    let name = BaseName::new("packed").unwrap();
    import_base(
        storage,
        &name,
        &ImportSource::Directory(directory.to_owned()),
        &|_| {},
    )
    .unwrap();
    name
}

fn pack_to(storage: &dyn Storage, volume: &SessionId, target: &Target) -> PackManifest {
    let kind_of = |name: &SnapshotName| {
        if name.as_str().starts_with("turn") {
            SnapshotKind::Turn
        } else {
            SnapshotKind::Named
        }
    };
    pack(storage, volume, target, "some/prefix", &kind_of).unwrap()
}

/// The tree of a volume at a moment, looked at through a fork.
fn tree_at(storage: &dyn Storage, volume: &SessionId, at: &ForkPoint) -> BTreeMap<PathBuf, Entry> {
    let look = id("look");
    storage.delete(&look).unwrap();
    storage.fork(volume, at, &look, None).unwrap();
    let found = tree(&storage.mount(&look).unwrap());
    storage.delete(&look).unwrap();
    found
}

fn assert_same_history(from: &dyn Storage, to: &dyn Storage, volume: &SessionId, copy: &SessionId) {
    // The ZFS of these tests runs in a process of its own and knows whole seconds only; it keeps
    // ACLs as attributes that have nothing to do with modes.
    let coarse = [from, to]
        .iter()
        .any(|storage| storage.kind() == StorageKind::Zfs);
    let look = |storage: &dyn Storage, volume: &SessionId, point: &ForkPoint| {
        let mut found = tree_at(storage, volume, point);
        for entry in found.values_mut().filter(|_| coarse) {
            entry.modified.1 = 0;
            entry
                .xattrs
                .retain(|name, _| !name.to_string_lossy().starts_with("system.posix_acl"));
        }
        found
    };
    let names = |storage: &dyn Storage, volume: &SessionId| {
        storage
            .snapshots(volume)
            .unwrap()
            .into_iter()
            .map(|snapshot| snapshot.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(from, volume), names(to, copy));
    let points = names(from, volume)
        .into_iter()
        .map(ForkPoint::Snapshot)
        .chain([ForkPoint::Now]);
    for point in points {
        assert_same(&look(from, volume, &point), &look(to, copy, &point));
    }
}

/// A volume with a history that changes everything there is to change.
fn eventful(storage: &dyn Storage, base: &BaseName) -> SessionId {
    let volume = id("eventful");
    storage
        .create(
            &volume,
            &VolumeSpec {
                base: base.clone(),
                quota: None,
            },
        )
        .unwrap();
    let root = storage.mount(&volume).unwrap();
    let at = |path: &str| root.join(path);
    one_of_everything(&at("workspace/all"));
    // Not every file system has room for the largest times and owners.
    std::os::unix::fs::chown(
        at("workspace/all/big-owner"),
        Some(3_000_000),
        Some(2_000_000_000),
    )
    .unwrap();
    set_modified(&at("workspace/all/holes"), 2_000_000_000, 7);
    fs::write(at("etc/config"), "changed in place").unwrap();
    fs::remove_dir_all(at("usr/share/doc/deep/deeper")).unwrap();
    storage.snapshot(&volume, &snapshot_name("turn-1")).unwrap();

    // Replaced by an opaque directory, by a file, and by a directory.
    fs::remove_dir_all(at("usr/share/doc/deep")).unwrap();
    fs::create_dir(at("usr/share/doc/deep")).unwrap();
    fs::write(at("usr/share/doc/deep/page-1"), "new").unwrap();
    fs::remove_dir_all(at("workspace/all/sticky")).unwrap();
    fs::write(at("workspace/all/sticky"), "a file now").unwrap();
    fs::remove_file(at("usr/bin/tool-2")).unwrap();
    fs::create_dir(at("usr/bin/tool-2")).unwrap();
    fs::write(at("usr/bin/tool-2/inside"), "x").unwrap();
    fs::remove_file(at("usr/bin/tool")).unwrap();
    symlink("tool-3", at("usr/bin/tool")).unwrap();
    set_xattr(&at("etc/config"), "user.note", b"seen");
    storage.snapshot(&volume, &snapshot_name("named")).unwrap();
    storage
        .snapshot(&volume, &snapshot_name("nothing-new"))
        .unwrap();

    fs::set_permissions(
        at("usr/bin/tool-0"),
        std::os::unix::fs::PermissionsExt::from_mode(0o4711),
    )
    .unwrap();
    std::os::unix::fs::chown(at("workspace"), Some(1000), Some(1000)).unwrap();
    set_modified(&at("usr/bin/tool-4"), 1_000_000, 5);
    set_modified(&at("usr"), 2_000_000, 6);
    fs::remove_file(at("workspace/all/plain")).unwrap();
    storage.unmount(&volume).unwrap();
    volume
}

fn there_and_back(from: Backend, to: Backend) {
    // Each fixture enters a mount namespace of its own, and the daemon of zfs stays in the one it
    // was started in.
    let (from, to) = if from == Backend::Zfs {
        let to = StorageFixture::new(to);
        (StorageFixture::new(from), to)
    } else {
        (StorageFixture::new(from), StorageFixture::new(to))
    };
    let directory = base_directory(from.scratch());
    let base = import(&*from.storage, &directory);
    import(&*to.storage, &directory);
    let volume = eventful(&*from.storage, &base);
    let target = Target::Directory(from.scratch().join("packs"));
    let manifest = pack_to(&*from.storage, &volume, &target);
    let kinds: Vec<_> = manifest
        .snapshots()
        .map(|snapshot| (snapshot.name.as_str(), snapshot.kind))
        .collect();
    let expected = [
        ("turn-1", SnapshotKind::Turn),
        ("named", SnapshotKind::Named),
        ("nothing-new", SnapshotKind::Named),
    ];
    assert_eq!(kinds, expected);
    let copy = id("copy");
    let unpacked = unpack(&*to.storage, &target, "some/prefix", &copy, None).unwrap();
    assert_eq!(unpacked.manifest, manifest);
    assert_eq!(unpacked.omitted, 0, "{:?}", unpacked.notes);
    assert_same_history(&*from.storage, &*to.storage, &volume, &copy);
}

#[test]
fn a_volume_moves_from_btrfs_to_plain_directories() {
    there_and_back(Backend::BtrfsImage, Backend::LocalDiskExt4);
}

#[test]
fn a_volume_moves_from_plain_directories_to_btrfs() {
    there_and_back(Backend::LocalDiskExt4, Backend::BtrfsImage);
}

#[test]
fn a_volume_moves_from_xfs_to_btrfs_directories() {
    there_and_back(Backend::LocalDiskXfs, Backend::BtrfsDirectory);
}

#[test]
fn a_volume_moves_from_zfs_to_btrfs() {
    there_and_back(Backend::Zfs, Backend::BtrfsImage);
}

#[test]
fn a_volume_moves_from_btrfs_to_zfs() {
    there_and_back(Backend::BtrfsImage, Backend::Zfs);
}

#[test]
fn hard_links_come_back_as_they_were() {
    let fixture = StorageFixture::new(Backend::BtrfsImage);
    let storage = &*fixture.storage;
    let base = import(storage, &base_directory(fixture.scratch()));
    let volume = id("linked");
    storage
        .create(&volume, &VolumeSpec { base, quota: None })
        .unwrap();
    let root = storage.mount(&volume).unwrap();
    let at = |name: &str| root.join("workspace").join(name);
    let equal = |name: &str| {
        fs::write(at(name), "equal").unwrap();
        set_modified(&at(name), 1, 0);
    };
    for name in ["kept", "joined", "parted"] {
        equal(name);
    }
    fs::hard_link(at("kept"), at("kept-too")).unwrap();
    fs::hard_link(at("parted"), at("parted-too")).unwrap();
    // A file of the base gets a second name.
    fs::hard_link(root.join("usr/bin/tool-3"), at("tool-3")).unwrap();
    equal("joined-too");
    storage.snapshot(&volume, &snapshot_name("one")).unwrap();
    // The same content under the same names; only what is one file and what is two has changed.
    let parent = |path: &Path| set_modified(path, 77, 0);
    fs::remove_file(at("joined-too")).unwrap();
    fs::hard_link(at("joined"), at("joined-too")).unwrap();
    fs::remove_file(at("parted-too")).unwrap();
    equal("parted-too");
    parent(&root.join("workspace"));
    storage.unmount(&volume).unwrap();

    let target = Target::Directory(fixture.scratch().join("packs"));
    pack_to(storage, &volume, &target);
    let copy = id("copy");
    unpack(storage, &target, "some/prefix", &copy, None).unwrap();
    assert_same_history(storage, storage, &volume, &copy);
    let root = storage.mount(&copy).unwrap();
    let inode = |name: &str| fs::metadata(root.join(name)).unwrap().ino();
    assert_eq!(inode("workspace/joined"), inode("workspace/joined-too"));
    assert_ne!(inode("workspace/parted"), inode("workspace/parted-too"));
    assert_eq!(inode("workspace/tool-3"), inode("usr/bin/tool-3"));
}

#[test]
fn any_history_comes_back() {
    let fixture = StorageFixture::new(Backend::LocalDiskExt4);
    let storage = &*fixture.storage;
    let directory = base_directory(fixture.scratch());
    // Overlayfs parts the hard links of a base when one of their names is touched, also when
    // nothing comes of it. Such a touch is no difference and does not travel.
    fs::remove_file(directory.join("usr/bin/tool-1-again")).unwrap();
    let base = import(storage, &directory);
    let target = Target::Directory(fixture.scratch().join("packs"));
    let config = ProptestConfig {
        cases: 8,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let steps = prop::collection::vec(
        (
            random_tree(),
            prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ),
        1..4,
    );
    TestRunner::new(config)
        .run(&steps, |steps| {
            // A case that failed leaves its things for the next, smaller one.
            let (volume, copy) = (id("random"), id("copy"));
            storage.delete(&volume).unwrap();
            storage.delete(&copy).unwrap();
            delete_pack(&target, "some/prefix").unwrap();
            storage
                .create(
                    &volume,
                    &VolumeSpec {
                        base: base.clone(),
                        quota: None,
                    },
                )
                .unwrap();
            let root = storage.mount(&volume).unwrap();
            for (number, (nodes, deletions)) in steps.iter().enumerate() {
                for node in nodes {
                    node.make(&root);
                }
                for index in deletions {
                    let paths: Vec<_> = tree(&root).into_keys().skip(1).collect();
                    if !paths.is_empty() {
                        sandbar_tree::remove_tree(&root.join(index.get(&paths))).unwrap();
                    }
                }
                storage
                    .snapshot(&volume, &snapshot_name(&format!("s{number}")))
                    .unwrap();
            }
            pack_to(storage, &volume, &target);
            unpack(storage, &target, "some/prefix", &copy, None).unwrap();
            assert_same_history(storage, storage, &volume, &copy);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_volume_travels_through_s3() {
    let server = MotoS3::start();
    let fixture = StorageFixture::new(Backend::BtrfsImage);
    let storage = &*fixture.storage;
    let base = import(storage, &base_directory(fixture.scratch()));
    let volume = eventful(storage, &base);
    // More than two parts of an upload.
    let root = storage.mount(&volume).unwrap();
    let noise = blake3::Hasher::new().update(b"noise").finalize_xof();
    fs::write(root.join("workspace/noise"), read_all(noise, 40 << 20)).unwrap();
    let manifest = pack_to(storage, &volume, &server.target());
    assert!(manifest.size() > 40 << 20);
    assert_eq!(server.keys().len(), 9, "{:?}", server.keys());
    let copy = id("copy");
    unpack(storage, &server.target(), "some/prefix", &copy, None).unwrap();
    assert_same_history(storage, storage, &volume, &copy);
    assert_eq!(server.open_uploads(), 0);
    delete_pack(&server.target(), "some/prefix").unwrap();
    assert_eq!(server.keys(), Vec::<String>::new());
}

fn read_all(mut stream: blake3::OutputReader, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.fill(&mut bytes);
    bytes
}

/// A storage with a packed volume.
struct Packed {
    fixture: StorageFixture,
    target: Target,
    directory: PathBuf,
    manifest: PackManifest,
}

impl Packed {
    fn new() -> Self {
        let fixture = StorageFixture::new(Backend::LocalDiskExt4);
        let base = import(&*fixture.storage, &base_directory(fixture.scratch()));
        let volume = eventful(&*fixture.storage, &base);
        let directory = fixture.scratch().join("packs");
        let target = Target::Directory(directory.clone());
        let manifest = pack_to(&*fixture.storage, &volume, &target);
        Self {
            fixture,
            target,
            directory: directory.join("some/prefix"),
            manifest,
        }
    }

    fn unpack_fails(&self) -> sandbar_core::Error {
        let before = self.fixture.storage.volumes().unwrap();
        let error = unpack(
            &*self.fixture.storage,
            &self.target,
            "some/prefix",
            &id("copy"),
            None,
        )
        .unwrap_err();
        assert_eq!(self.fixture.storage.volumes().unwrap(), before);
        error
    }

    fn edit_manifest(&self, edit: impl FnOnce(&mut serde_json::Value)) {
        let path = self.directory.join("manifest.json");
        let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        edit(&mut value);
        fs::write(&path, value.to_string()).unwrap();
    }
}

#[test]
fn a_damaged_pack_makes_no_volume() {
    let packed = Packed::new();
    for step in &packed.manifest.steps {
        for object in [&step.deleted, &step.entries] {
            let path = packed.directory.join(&object.name);
            let good = fs::read(&path).unwrap();
            let mut bad = good.clone();
            bad[good.len() / 2] ^= 1;
            for damaged in [
                &bad[..],
                &good[..good.len() - 1],
                &[&good[..], b"more"].concat(),
            ] {
                fs::write(&path, damaged).unwrap();
                let error = packed.unpack_fails();
                assert!(
                    error.message().contains("damaged") && error.message().contains(&object.name),
                    "{error}"
                );
            }
            fs::remove_file(&path).unwrap();
            assert_eq!(packed.unpack_fails().code(), ErrorCode::FileNotFound);
            fs::write(&path, good).unwrap();
        }
    }
    unpack(
        &*packed.fixture.storage,
        &packed.target,
        "some/prefix",
        &id("copy"),
        None,
    )
    .unwrap();
}

#[test]
fn pack_without_a_manifest_does_not_exist() {
    let packed = Packed::new();
    fs::remove_file(packed.directory.join("manifest.json")).unwrap();
    // An upload whose program was killed.
    fs::write(packed.directory.join("000009.tar.zst#1"), "half").unwrap();
    assert_eq!(packed.unpack_fails().code(), ErrorCode::FileNotFound);
    assert_eq!(
        read_manifest(&packed.target, "some/prefix")
            .unwrap_err()
            .code(),
        ErrorCode::FileNotFound
    );
    delete_pack(&packed.target, "some/prefix").unwrap();
    assert!(
        !packed.directory.exists(),
        "what a failed pack left is deleted too"
    );
    delete_pack(&packed.target, "some/prefix").unwrap();
}

#[test]
fn a_pack_of_another_format_is_refused() {
    let packed = Packed::new();
    packed.edit_manifest(|manifest| manifest["format"] = 99.into());
    let error = packed.unpack_fails();
    assert!(
        error.message().contains("format 99") && error.hint().is_some(),
        "{error}"
    );
}

#[test]
fn the_base_must_be_there_and_the_same() {
    let packed = Packed::new();
    packed.edit_manifest(|manifest| manifest["base"] = "elsewhere".into());
    let error = packed.unpack_fails();
    assert_eq!(error.code(), ErrorCode::BaseNotFound);
    assert!(
        error
            .hint()
            .unwrap()
            .contains("sandbar base import elsewhere"),
        "{:?}",
        error.hint()
    );

    packed.edit_manifest(|manifest| manifest["base"] = packed.fixture.base.as_str().into());
    let error = packed.unpack_fails();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    assert!(
        error.message().contains("differs") && error.hint().is_some(),
        "{error}"
    );
}

#[test]
fn neither_a_pack_nor_a_volume_is_overwritten() {
    let packed = Packed::new();
    let storage = &*packed.fixture.storage;
    let kind_of = |_: &SnapshotName| SnapshotKind::Named;
    let error = pack(
        storage,
        &id("eventful"),
        &packed.target,
        "some/prefix",
        &kind_of,
    )
    .unwrap_err();
    assert_eq!(error.field(), Some("prefix"));
    let error = unpack(
        storage,
        &packed.target,
        "some/prefix",
        &id("eventful"),
        None,
    )
    .unwrap_err();
    assert_eq!(error.code(), ErrorCode::SessionExists);
    assert_eq!(
        storage.snapshots(&id("eventful")).unwrap().len(),
        3,
        "the volume that was there is untouched"
    );
    for prefix in ["", "a//b", "../up"] {
        let error = pack(storage, &id("eventful"), &packed.target, prefix, &kind_of).unwrap_err();
        assert_eq!(error.field(), Some("prefix"), "{prefix}");
    }
}

#[test]
fn a_pack_that_fails_leaves_nothing_behind() {
    let fixture = StorageFixture::new(Backend::LocalDiskExt4);
    let base = import(&*fixture.storage, &base_directory(fixture.scratch()));
    let volume = eventful(&*fixture.storage, &base);
    let root = fixture.storage.mount(&volume).unwrap();
    let noise = blake3::Hasher::new().update(b"noise").finalize_xof();
    fs::write(root.join("workspace/noise"), read_all(noise, 8 << 20)).unwrap();
    // A place with too little room for the last step.
    let small = fixture.scratch().join("small");
    fs::create_dir(&small).unwrap();
    let options = c"size=2m";
    rustix::mount::mount(
        "none",
        &small,
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        Some(options),
    )
    .unwrap();
    let target = Target::Directory(small.clone());
    let kind_of = |_: &SnapshotName| SnapshotKind::Named;
    let error = pack(&*fixture.storage, &volume, &target, "some/prefix", &kind_of).unwrap_err();
    let left = tree(&small);
    rustix::mount::unmount(&small, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
    assert_eq!(left.len(), 1, "{:?}", left.keys());
}

#[test]
fn a_volume_on_this_machines_programs_is_packed_too() {
    let fixture = StorageFixture::new(Backend::BtrfsImage);
    let storage = &*fixture.storage;
    let base = BaseName::new("machine").unwrap();
    import_base(storage, &base, &ImportSource::Host, &|_| {}).unwrap();
    let volume = id("hosted");
    storage
        .create(&volume, &VolumeSpec { base, quota: None })
        .unwrap();
    let root = storage.mount(&volume).unwrap();
    fs::write(root.join("usr/bin/new-tool"), "x").unwrap();
    fs::remove_file(root.join("usr/bin/env")).unwrap();
    fs::write(root.join("workspace/file"), "work").unwrap();
    storage.snapshot(&volume, &snapshot_name("one")).unwrap();
    fs::remove_file(root.join("usr/bin/new-tool")).unwrap();
    storage.unmount(&volume).unwrap();
    let target = Target::Directory(fixture.scratch().join("packs"));
    let manifest = pack_to(storage, &volume, &target);
    assert!(manifest.base_fingerprint.starts_with("machine:"));
    assert!(
        manifest.size() < 1 << 20,
        "the machine itself is not packed"
    );
    let copy = id("copy");
    unpack(storage, &target, "some/prefix", &copy, None).unwrap();
    let root = storage.mount(&copy).unwrap();
    assert!(!root.join("usr/bin/env").exists() && !root.join("usr/bin/new-tool").exists());
    assert!(root.join("usr/bin/sh").exists());
    assert_eq!(
        fs::read_to_string(root.join("workspace/file")).unwrap(),
        "work"
    );
    let changes = sandbar_storage::diff::between(
        &storage.view(&volume, &ForkPoint::Now).unwrap(),
        &storage.view(&copy, &ForkPoint::Now).unwrap(),
    );
    assert_eq!(
        changes
            .unwrap()
            .into_iter()
            .map(|entry| entry.change)
            .collect::<Vec<_>>(),
        []
    );
}

impl Packed {
    fn refusal(&self, from: PackReference<'_>) -> String {
        let storage = &*self.fixture.storage;
        let before = storage.volumes().unwrap();
        let error = unpack(storage, &self.target, from, &id("copy"), None).unwrap_err();
        assert_eq!(storage.volumes().unwrap(), before);
        assert_eq!(
            error.code(),
            ErrorCode::InvalidArgument,
            "{}",
            error.chain()
        );
        error.message().to_owned()
    }
}

#[test]
fn pack_of_another_session_or_changed_is_refused() {
    let packed = Packed::new();
    let (session, other) = (id("eventful"), id("other"));
    let fingerprint = packed.manifest.fingerprint();
    let own = PackReference {
        prefix: "some/prefix",
        session: Some(&session),
        fingerprint: Some(&fingerprint),
    };
    let message = packed.refusal(PackReference {
        session: Some(&other),
        ..own
    });
    assert!(
        message.contains("belongs to session `eventful`"),
        "{message}"
    );
    // A complete pack of the same session, from another time.
    let again = pack(
        &*packed.fixture.storage,
        &session,
        &packed.target,
        "again",
        &|_| SnapshotKind::Named,
    )
    .unwrap();
    assert_ne!(again.fingerprint(), fingerprint);
    let message = packed.refusal(PackReference {
        prefix: "again",
        ..own
    });
    assert!(
        message.contains("not the one that was written"),
        "{message}"
    );
    // Everything of one object is consistent, with its hash in the manifest.
    packed.edit_manifest(|manifest| {
        let steps = manifest["steps"].as_array_mut().unwrap();
        steps.swap(0, 1);
    });
    let message = packed.refusal(own);
    assert!(
        message.contains("not the one that was written"),
        "{message}"
    );
    packed.edit_manifest(|manifest| manifest["steps"].as_array_mut().unwrap().swap(0, 1));
    unpack(
        &*packed.fixture.storage,
        &packed.target,
        own,
        &id("copy"),
        None,
    )
    .unwrap();
}

#[test]
fn manifest_and_content_of_a_pack_are_read_with_bounds() {
    let packed = Packed::new();
    let manifest = packed.directory.join("manifest.json");
    let good = fs::read(&manifest).unwrap();
    fs::File::options()
        .write(true)
        .open(&manifest)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let message = packed.refusal("some/prefix".into());
    assert!(message.contains("larger than 16777216 bytes"), "{message}");
    fs::write(&manifest, good).unwrap();
    // More entries and bytes than were packed.
    packed.edit_manifest(|manifest| manifest["steps"][0]["entry_count"] = 3.into());
    let message = packed.refusal("some/prefix".into());
    assert!(message.contains("more than 3 entries"), "{message}");
    let step = &packed.manifest.steps[0];
    packed.edit_manifest(|manifest| {
        manifest["steps"][0]["entry_count"] = step.entry_count.into();
        manifest["steps"][0]["entry_bytes"] = 5.into();
    });
    let message = packed.refusal("some/prefix".into());
    assert!(message.contains("more than 5 bytes"), "{message}");
    packed.edit_manifest(|manifest| {
        manifest["steps"][0]["entry_bytes"] = step.entry_bytes.into();
        manifest["steps"][0]["deleted_bytes"] = 1.into();
    });
    let message = packed.refusal("some/prefix".into());
    assert!(message.contains("cut short"), "{message}");
}

#[test]
fn links_in_an_object_store_are_not_followed() {
    let packed = Packed::new();
    let outside = packed.fixture.scratch().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    symlink(&outside, packed.directory.join("link")).unwrap();
    symlink(outside.join("kept"), packed.directory.join("file-link")).unwrap();
    delete_pack(&packed.target, "some/prefix").unwrap();
    assert!(!packed.directory.exists());
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    // In place of the prefix itself, and of a directory above.
    let Target::Directory(store) = &packed.target else {
        panic!("a directory")
    };
    symlink(&outside, store.join("some")).unwrap();
    fs::create_dir(outside.join("prefix")).unwrap();
    fs::write(outside.join("prefix/manifest.json"), "{}").unwrap();
    read_manifest(&packed.target, "some/prefix").unwrap_err();
    delete_pack(&packed.target, "some/prefix").unwrap_err();
    let storage = &*packed.fixture.storage;
    let kind_of = |_: &SnapshotName| SnapshotKind::Named;
    pack(
        storage,
        &id("eventful"),
        &packed.target,
        "some/prefix",
        &kind_of,
    )
    .unwrap_err();
    delete_pack(&packed.target, "some").unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    assert_eq!(
        fs::read_to_string(outside.join("prefix/manifest.json")).unwrap(),
        "{}"
    );
}

#[test]
fn pack_in_an_open_directory_is_closed_to_others() {
    let fixture = StorageFixture::new(Backend::LocalDiskExt4);
    let base = import(&*fixture.storage, &base_directory(fixture.scratch()));
    let volume = eventful(&*fixture.storage, &base);
    let directory = fixture.scratch().join("packs");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let target = Target::Directory(directory.clone());
    pack_to(&*fixture.storage, &volume, &target);
    for (path, entry) in tree(&directory) {
        if path.as_os_str() != "" {
            assert_eq!(entry.mode & 0o077, 0, "{}", path.display());
        }
    }
}

#[test]
fn pipe_in_place_of_a_manifest_does_not_block() {
    let packed = Packed::new();
    let manifest = packed.directory.join("manifest.json");
    fs::remove_file(&manifest).unwrap();
    sandbar_testing::tree::make_node(&manifest, rustix::fs::FileType::Fifo, 0, 0);
    let error = packed.unpack_fails();
    assert!(
        error.chain().contains("not a regular file"),
        "{}",
        error.chain()
    );
    delete_pack(&packed.target, "some/prefix").unwrap();
}
