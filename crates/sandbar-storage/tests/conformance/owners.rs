#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::ErrorKind,
    os::{
        fd::{AsFd, AsRawFd},
        unix::{
            fs::{MetadataExt, PermissionsExt, chown, symlink},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustix::{
    fs::{FileType, StatVfsMountFlags, statvfs},
    io::Errno,
};
use sandbar_core::{
    Aspect, Aspects, BaseName, ChangeKind, LaterSnapshots, OwnerMap, SessionId, SnapshotKind,
    StorageKind,
};
use sandbar_storage::{
    BaseLayer, ForkPoint, LayerDirectory, Mounted, StorageConfig, VolumeSpec, diff, open,
    pack::{Target, pack, unpack},
};
use sandbar_testing::{
    Backend, FileSystem, Image, StorageFixture, commit_base, owner_map, small_base, tree,
};
use sandbar_tree::{
    ActingOwner,
    archive::{ArchiveEntry, ArchiveReader, ArchiveWriter, Devices, UnpackOptions, Unpacker},
};

use crate::snapshots::snap;

const FIRST: u32 = 1_000_000;
const ELSEWHERE: u32 = 5_000_000;

/// zfs-fuse is FUSE, which cannot; OpenZFS can.
fn translates(backend: Backend) -> bool {
    backend != Backend::Zfs
}

fn mount(fixture: &StorageFixture, volume: &SessionId, owners: &OwnerMap) -> Mounted {
    fixture.storage.mount_as(volume, Some(owners)).unwrap()
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

/// Returns the owner of a path of a volume on disk.
fn on_disk(fixture: &StorageFixture, volume: &SessionId, at: &ForkPoint, path: &str) -> (u32, u32) {
    let view = fixture.storage.view(volume, at).unwrap();
    owner(&view.layers[0].upper.clone().unwrap().join(path))
}

/// Runs a script in a directory as a user without any privilege.
fn run_as(user: u32, directory: &Path, script: &str) -> String {
    // The parents are private; only the directory itself is accessible.
    let directory = File::open(directory).unwrap();
    let descriptor = directory.as_raw_fd();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).uid(user).gid(user);
    // SAFETY: between fork and exec one system call is made, on a descriptor that is open until the
    // command has ended.
    unsafe {
        command.pre_exec(move || match libc::fchdir(descriptor) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Files as a sandbox leaves them: of its root user, given away by it, and of another user.
fn work_as_a_sandbox(owners: &OwnerMap, root: &Path) {
    let acting = ActingOwner::root_of(owners).unwrap();
    fs::create_dir(root.join("workspace/dir")).unwrap();
    fs::write(root.join("workspace/dir/file"), "x").unwrap();
    symlink("file", root.join("workspace/dir/link")).unwrap();
    fs::write(root.join("workspace/given"), "x").unwrap();
    chown(
        root.join("workspace/given"),
        Some(owners.on_host(33)),
        Some(owners.on_host(34)),
    )
    .unwrap();
    drop(acting);
    run_as(owners.on_host(1000), root, "echo x > tmp/by-user");
}

const MADE: [(&str, (u32, u32)); 5] = [
    ("workspace/dir", (0, 0)),
    ("workspace/dir/file", (0, 0)),
    ("workspace/dir/link", (0, 0)),
    ("workspace/given", (33, 34)),
    ("tmp/by-user", (1000, 1000)),
];

pub(crate) fn owners_on_disk_are_those_inside_whatever_the_map(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let storage = &*fixture.storage;
    let volume = fixture.volume("v");
    let owners = owner_map(FIRST);
    let mounted = mount(&fixture, &volume, &owners);
    assert_eq!(mounted.translated, translates(backend));
    if !mounted.translated {
        // As it is on disk, and of use all the same.
        assert_eq!(
            mounted.root,
            storage.mount_as(&volume, Some(&owners)).unwrap().root
        );
        assert_eq!(owner(&mounted.root.join("etc/config")), (0, 0));
        fs::write(mounted.root.join("workspace/file"), "x").unwrap();
        return;
    }
    assert_eq!(owner(&mounted.root), (FIRST, FIRST));
    assert_eq!(owner(&mounted.root.join("etc/config")), (FIRST, FIRST));
    work_as_a_sandbox(&owners, &mounted.root);
    storage.snapshot(&volume, &snap("s")).unwrap();
    let fork = SessionId::new("fork").unwrap();
    storage.fork(&volume, &ForkPoint::Now, &fork, None).unwrap();
    for (path, expected) in MADE {
        let shown = (owners.on_host(expected.0), owners.on_host(expected.1));
        assert_eq!(owner(&mounted.root.join(path)), shown, "{path}");
        assert_eq!(
            on_disk(&fixture, &volume, &ForkPoint::Now, path),
            expected,
            "{path}"
        );
        assert_eq!(
            on_disk(&fixture, &volume, &ForkPoint::Snapshot(snap("s")), path),
            expected,
            "{path}"
        );
        assert_eq!(
            owner(&storage.mount(&fork).unwrap().join(path)),
            expected,
            "{path}"
        );
    }
    let base = storage.base_view(&fixture.base).unwrap();
    for entry in diff::between(&base, &storage.view(&volume, &ForkPoint::Now).unwrap()).unwrap() {
        let Some((_, expected)) = MADE
            .iter()
            .find(|(path, _)| Path::new("/").join(path) == entry.change.path)
        else {
            assert!(entry.change.aspects.only_time(), "{:?}", entry.change);
            continue;
        };
        assert_eq!(
            (entry.change.kind, owner(&entry.source.unwrap())),
            (ChangeKind::Added, *expected)
        );
    }
    chown(
        mounted.root.join("workspace/given"),
        Some(FIRST + 7),
        Some(FIRST + 7),
    )
    .unwrap();
    storage
        .rollback(&volume, &snap("s"), LaterSnapshots::Drop)
        .unwrap();
    let elsewhere = owner_map(ELSEWHERE);
    let mounted = mount(&fixture, &volume, &elsewhere);
    for (path, expected) in MADE {
        assert_eq!(
            on_disk(&fixture, &volume, &ForkPoint::Now, path),
            expected,
            "{path}"
        );
        let shown = (elsewhere.on_host(expected.0), elsewhere.on_host(expected.1));
        assert_eq!(owner(&mounted.root.join(path)), shown, "{path}");
    }
}

pub(crate) fn a_pack_has_the_owners_on_disk(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let storage = &*fixture.storage;
    let volume = fixture.volume("v");
    let owners = owner_map(FIRST);
    let mounted = mount(&fixture, &volume, &owners);
    if !mounted.translated {
        assert!(!translates(backend));
        return;
    }
    work_as_a_sandbox(&owners, &mounted.root);
    storage.snapshot(&volume, &snap("s")).unwrap();
    let target = Target::Directory(fixture.scratch().join("packs"));
    pack(storage, &volume, &target, "p", &|_| SnapshotKind::Named).unwrap();
    let copy = SessionId::new("copy").unwrap();
    unpack(storage, &target, "p", &copy, None).unwrap();
    for (path, expected) in MADE {
        assert_eq!(
            on_disk(&fixture, &copy, &ForkPoint::Snapshot(snap("s")), path),
            expected,
            "{path}"
        );
    }
}

pub(crate) fn a_base_file_changed_by_a_sandbox_keeps_its_owner(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let base = BaseName::new("owned").unwrap();
    commit_base(&*fixture.storage, &base, |root| {
        small_base(root);
        fs::write(root.join("workspace/log"), "one\n").unwrap();
        chown(root.join("workspace/log"), Some(1000), Some(1001)).unwrap();
        tree::set_xattr(
            &root.join("workspace/log"),
            "system.posix_acl_access",
            &tree::acl(),
        );
    });
    let volume = SessionId::new("v").unwrap();
    fixture
        .storage
        .create(
            &volume,
            &VolumeSpec {
                base: base.clone(),
                quota: None,
            },
        )
        .unwrap();
    let owners = owner_map(FIRST);
    let mounted = mount(&fixture, &volume, &owners);
    let user = if mounted.translated {
        owners.on_host(1000)
    } else {
        1000
    };
    run_as(user, &mounted.root.join("workspace"), "echo two >> log");
    let view = |point| fixture.storage.view(&volume, point).unwrap();
    let base = fixture.storage.base_view(&base).unwrap();
    let entries = diff::between(&base, &view(&ForkPoint::Now)).unwrap();
    let changes: BTreeMap<PathBuf, Aspects> = entries
        .iter()
        .filter(|entry| !entry.change.aspects.only_time())
        .map(|entry| (entry.change.path.clone(), entry.change.aspects))
        .collect();
    let expected = Aspects::NONE.with(Aspect::Content).with(Aspect::Time);
    let found = changes.get(Path::new("/workspace/log")).copied().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(
        found == expected || found == Aspects::NONE.with(Aspect::Content),
        "{found:?}"
    );
    assert_eq!(
        on_disk(&fixture, &volume, &ForkPoint::Now, "workspace/log"),
        (1000, 1001)
    );
}

pub(crate) fn a_tree_is_the_same_under_every_map(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let storage = &*fixture.storage;
    let volume = fixture.volume("v");
    let root = storage.mount(&volume).unwrap();
    tree::one_of_everything(&root.join("workspace/all"));
    let before = tree::tree(&root);
    for first in [FIRST, ELSEWHERE] {
        let owners = owner_map(first);
        let mounted = mount(&fixture, &volume, &owners);
        let mut seen = tree::tree(&mounted.root);
        if mounted.translated {
            for (path, entry) in &mut seen {
                // No map has room for this one.
                let expected = if path.ends_with("big-owner") {
                    (65_534, 65_534)
                } else {
                    let (user, group) = before[path].owner;
                    (owners.on_host(user), owners.on_host(group))
                };
                assert_eq!(entry.owner, expected, "{}", path.display());
                entry.owner = before[path].owner;
                // These name owners, too.
                entry
                    .xattrs
                    .retain(|name, _| !name.to_string_lossy().starts_with("system.posix_acl"));
                entry
                    .xattrs
                    .remove(std::ffi::OsStr::new("security.capability"));
                for name in [
                    "system.posix_acl_access",
                    "system.posix_acl_default",
                    "security.capability",
                ] {
                    if let Some(value) = before[path].xattrs.get(std::ffi::OsStr::new(name)) {
                        entry.xattrs.insert(name.into(), value.clone());
                    }
                }
            }
        }
        tree::assert_same(&before, &seen);
    }
    tree::assert_same(&before, &tree::tree(&storage.mount(&volume).unwrap()));
}

pub(crate) fn an_archive_read_and_unpacked_through_maps_keeps_every_owner(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let storage = &*fixture.storage;
    let (from, to) = (fixture.volume("from"), fixture.volume("to"));
    let all = "workspace/all";
    let root = storage.mount(&from).unwrap();
    tree::one_of_everything(&root.join(all));
    // No map has room for its owner.
    fs::remove_file(root.join(all).join("big-owner")).unwrap();
    tree::set_modified(&root.join(all), 1_500_000_000, 0);
    let expected = tree::tree(&root.join(all));
    let map = |first, mounted: &Mounted| mounted.translated.then(|| Arc::new(owner_map(first)));

    let mounted = mount(&fixture, &from, &owner_map(FIRST));
    let mut writer = ArchiveWriter::new(Vec::new()).with_owners(map(FIRST, &mounted));
    let directory = File::open(mounted.root.join("workspace")).unwrap();
    writer
        .append_tree(directory.as_fd(), "all".as_ref(), "all".as_ref())
        .unwrap();
    let (archive, _) = writer.finish().unwrap();

    let mounted = mount(&fixture, &to, &owner_map(ELSEWHERE));
    let owners = map(ELSEWHERE, &mounted);
    let acting = owners
        .as_deref()
        .map(|owners| ActingOwner::root_of(owners).unwrap());
    let select = |entry: &mut ArchiveEntry| {
        if let Some(owners) = &owners {
            entry.translate_owners(&|owner| owners.on_host(owner));
        }
        true
    };
    let target = File::open(mounted.root.join("workspace")).unwrap();
    let mut unpacker = Unpacker::new(
        target.into(),
        UnpackOptions {
            select: &select,
            devices: Devices::Make,
            ..UnpackOptions::CAREFUL
        },
    );
    unpacker
        .unpack(&mut ArchiveReader::new(&archive[..]))
        .unwrap();
    drop(acting);
    assert_eq!(unpacker.summary().notes, [""; 0]);
    tree::assert_same(
        &expected,
        &tree::tree(&storage.mount(&to).unwrap().join(all)),
    );
}

pub(crate) fn mount_with_other_owners_replaces_the_old_mount(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let storage = &*fixture.storage;
    let volume = fixture.volume("v");
    let mounts = || {
        fs::read_to_string("/proc/thread-self/mountinfo")
            .unwrap()
            .lines()
            .count()
    };
    let before = mounts();
    let (one, two) = (owner_map(FIRST), owner_map(ELSEWHERE));
    let first = mount(&fixture, &volume, &one);
    let count = mounts();
    assert_eq!(mount(&fixture, &volume, &one), first);
    // Another handle on the same range is the same range.
    assert_eq!(mount(&fixture, &volume, &owner_map(FIRST)), first);
    let second = mount(&fixture, &volume, &two);
    let expected = if second.translated { ELSEWHERE } else { 0 };
    assert_eq!(owner(&second.root.join("etc/config")), (expected, expected));
    let plain = storage.mount(&volume).unwrap();
    assert_eq!(owner(&plain.join("etc/config")), (0, 0));
    fs::write(plain.join("etc/config"), "still writable").unwrap();
    assert!(mounts() <= count);
    storage.unmount(&volume).unwrap();
    assert_eq!(mounts(), before);
}

pub(crate) fn host_root_creates_files_only_as_mapped_owner(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let owners = owner_map(FIRST);
    let mounted = mount(&fixture, &volume, &owners);
    if !mounted.translated {
        assert!(!translates(backend));
        return;
    }
    let overflow = fs::write(mounted.root.join("etc/new"), "x").unwrap_err();
    assert_eq!(
        overflow.raw_os_error(),
        Some(Errno::OVERFLOW.raw_os_error())
    );
    let acting = ActingOwner::root_of(&owners).unwrap();
    fs::write(mounted.root.join("etc/new"), "x").unwrap();
    // Host root still has access to everything.
    fs::create_dir(mounted.root.join("closed")).unwrap();
    tree::set_mode(&mounted.root.join("closed"), 0);
    chown(
        mounted.root.join("closed"),
        Some(FIRST + 9),
        Some(FIRST + 9),
    )
    .unwrap();
    fs::write(mounted.root.join("closed/inside"), "x").unwrap();
    drop(acting);
    let outside = fixture.scratch().join("outside");
    fs::write(&outside, "x").unwrap();
    assert_eq!(owner(&outside), (0, 0));
    assert_eq!(fs::read(mounted.root.join("closed/inside")).unwrap(), b"x");
}

/// A base that shows `lent` of this machine at `/lent`, which its own tree does not have.
fn lending_base(fixture: &StorageFixture, lent: &Path) -> SessionId {
    let name = BaseName::new("lending").unwrap();
    commit_base(
        &*fixture.storage,
        &BaseName::new("like").unwrap(),
        small_base,
    );
    let mut record = fixture
        .storage
        .base(&BaseName::new("like").unwrap())
        .unwrap();
    record.name = name.clone();
    record.layers.push(BaseLayer {
        mount_point: "/lent".into(),
        directory: LayerDirectory::Host(lent.to_owned()),
    });
    let staged = fixture.storage.stage_base(&name).unwrap();
    small_base(&staged.rootfs());
    fixture.storage.commit_base(staged, &record).unwrap();
    let volume = SessionId::new("l").unwrap();
    fixture
        .storage
        .create(
            &volume,
            &VolumeSpec {
                base: name,
                quota: None,
            },
        )
        .unwrap();
    volume
}

pub(crate) fn lent_directories_are_id_mapped_nosuid_and_nodev(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let lent = fixture.scratch().join("lent");
    fs::create_dir(&lent).unwrap();
    fs::write(lent.join("tool"), "lent").unwrap();
    chown(lent.join("tool"), Some(3), Some(4)).unwrap();
    let volume = lending_base(&fixture, &lent);
    let owners = owner_map(FIRST);
    let mounted = mount(&fixture, &volume, &owners);
    let root = &mounted.root;
    assert_eq!(fs::read(root.join("lent/tool")).unwrap(), b"lent");
    let harmless = StatVfsMountFlags::NODEV | StatVfsMountFlags::NOSUID;
    assert!(
        statvfs(root.join("lent"))
            .unwrap()
            .f_flag
            .contains(harmless)
    );
    if mounted.translated {
        assert_eq!(owner(&root.join("lent/tool")), (FIRST + 3, FIRST + 4));
        // The mount point was made for the sandbox.
        fixture.storage.unmount(&volume).unwrap();
        assert_eq!(on_disk(&fixture, &volume, &ForkPoint::Now, "lent"), (0, 0));
    } else {
        assert_eq!(owner(&root.join("lent/tool")), (3, 4));
    }
    assert_eq!(owner(&lent.join("tool")), (3, 4));
}

pub(crate) fn lent_files_only_root_may_read_are_closed(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let lent = fixture.scratch().join("lent");
    for directory in ["closed", "open"] {
        fs::create_dir_all(lent.join(directory)).unwrap();
    }
    tree::set_mode(&lent.join("closed"), 0o700);
    tree::set_mode(&lent.join("open"), 0o755);
    for (name, mode, group) in [
        ("private", 0o600, 0),
        ("group", 0o640, 0),
        ("closed/inside", 0o644, 0),
        ("open/tool", 0o755, 0),
        ("raised", 0o4755, 0),
    ] {
        fs::write(lent.join(name), name).unwrap();
        chown(lent.join(name), Some(0), Some(group)).unwrap();
        tree::set_mode(&lent.join(name), mode);
    }
    let volume = lending_base(&fixture, &lent);
    let owners = owner_map(FIRST);
    // Translated and as they are: everything is tried with all capabilities of the machine's root.
    for owners in [Some(&owners), None] {
        let mounted = fixture.storage.mount_as(&volume, owners).unwrap();
        let shown = mounted.root.join("lent");
        let root_inside = if mounted.translated { FIRST } else { 0 };
        for name in ["open/tool", "raised"] {
            assert_eq!(fs::read_to_string(shown.join(name)).unwrap(), name);
            assert_eq!(
                owner(&shown.join(name)),
                (root_inside, root_inside),
                "{name}"
            );
        }
        assert_eq!(
            fs::metadata(shown.join("raised"))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777,
            0o4755
        );
        let denied = |outcome: std::io::Result<()>, what: &str| {
            assert_eq!(
                outcome.unwrap_err().kind(),
                ErrorKind::PermissionDenied,
                "{what}"
            );
        };
        for name in ["private", "group", "closed/inside"] {
            denied(fs::read(shown.join(name)).map(drop), name);
        }
        denied(fs::read_dir(shown.join("closed")).map(drop), "list");
        // Later changes of modes apply as well.
        fs::write(lent.join("later"), "later").unwrap();
        tree::set_mode(&lent.join("later"), 0o600);
        denied(fs::read(shown.join("later")).map(drop), "later");
        fs::remove_file(lent.join("later")).unwrap();
        if backend == Backend::Zfs {
            // Lent read-only there.
            continue;
        }
        let acting = owners.map(|owners| ActingOwner::root_of(owners).unwrap());
        // Ways to get a readable copy: change its mode, move or link it, append to it.
        denied(
            fs::set_permissions(shown.join("private"), PermissionsExt::from_mode(0o644)),
            "chmod",
        );
        denied(
            fs::rename(shown.join("private"), shown.join("mine")),
            "rename",
        );
        denied(
            fs::hard_link(shown.join("private"), shown.join("mine")),
            "link",
        );
        denied(
            File::options()
                .append(true)
                .open(shown.join("private"))
                .map(drop),
            "append",
        );
        // The session may still replace files, as package managers do.
        fs::write(shown.join("open/tool"), "changed").unwrap();
        fs::write(shown.join("open/new"), "new").unwrap();
        fs::rename(shown.join("open/new"), shown.join("open/tool")).unwrap();
        assert_eq!(fs::read_to_string(shown.join("open/tool")).unwrap(), "new");
        fs::remove_file(shown.join("open/tool")).unwrap();
        drop(acting);
        fixture.storage.unmount(&volume).unwrap();
        let again = fixture.storage.mount_as(&volume, owners).unwrap();
        assert!(!again.root.join("lent/open/tool").exists());
        fixture.storage.unmount(&volume).unwrap();
        fixture.storage.delete(&volume).unwrap();
        let spec = VolumeSpec {
            base: BaseName::new("lending").unwrap(),
            quota: None,
        };
        fixture.storage.create(&volume, &spec).unwrap();
        assert_eq!(fs::read_to_string(lent.join("private")).unwrap(), "private");
    }
}

/// A copy of `id` with the setuid bit, and the device `null`.
fn temptations(directory: &Path) {
    fs::copy("/usr/bin/id", directory.join("id")).unwrap();
    fs::set_permissions(directory.join("id"), PermissionsExt::from_mode(0o4755)).unwrap();
    tree::make_node(&directory.join("null"), FileType::CharacterDevice, 1, 3);
}

/// Neither the device node nor the setuid program works; the mount flags show why.
fn assert_harmless(directory: &Path, user: u32) {
    assert_eq!(run_as(user, directory, "./id -u"), format!("{user}\n"));
    assert_eq!(
        File::open(directory.join("null")).unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
    let harmless = StatVfsMountFlags::NODEV | StatVfsMountFlags::NOSUID;
    assert!(statvfs(directory).unwrap().f_flag.contains(harmless));
}

pub(crate) fn device_nodes_and_setuid_bits_do_nothing(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    // Elsewhere on this machine both work.
    temptations(fixture.scratch());
    assert_eq!(run_as(4242, fixture.scratch(), "./id -u"), "0\n");
    File::open(fixture.scratch().join("null")).unwrap();

    let volume = fixture.volume("v");
    let workspace = fixture.storage.mount(&volume).unwrap().join("workspace");
    temptations(&workspace);
    assert_harmless(&workspace, 4242);
    let owners = owner_map(FIRST);
    let mounted = mount(&fixture, &volume, &owners);
    assert_harmless(&mounted.root.join("workspace"), FIRST + 42);
}

/// Without overlays, a volume is a copy of its base.
#[test]
fn a_volume_that_is_no_overlay_is_harmless_too() {
    sandbar_testing::private_mounts();
    let scratch = tree::scratch();
    let image = Image::new(scratch.path(), FileSystem::Overlay, 0);
    let config = StorageConfig {
        choice: Some(StorageKind::LocalDisk),
        directory: image.path().join("storage"),
        zfs: None,
        pool_image_limit: None,
    };
    let storage = open(&config).unwrap().storage;
    assert!(!storage.facts().layered.is_yes());
    let base = BaseName::new("small").unwrap();
    commit_base(&*storage, &base, small_base);
    let volume = SessionId::new("v").unwrap();
    storage
        .create(&volume, &VolumeSpec { base, quota: None })
        .unwrap();
    let root = storage.mount(&volume).unwrap();
    temptations(&root.join("workspace"));
    assert_harmless(&root.join("workspace"), 4242);
    // Nor can it translate.
    let mounted = storage.mount_as(&volume, Some(&owner_map(FIRST))).unwrap();
    assert_eq!(
        mounted,
        Mounted {
            root,
            translated: false
        }
    );
    storage.snapshot(&volume, &snap("s")).unwrap();
    fs::remove_file(mounted.root.join("etc/config")).unwrap();
    storage
        .rollback(&volume, &snap("s"), LaterSnapshots::Drop)
        .unwrap();
    assert!(storage.mount(&volume).unwrap().join("etc/config").exists());
    storage.close().unwrap();
}
