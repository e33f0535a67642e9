use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use sandbar_core::{Aspect, ChangeKind, EntryType, LaterSnapshots, SessionId, SnapshotName};
use sandbar_storage::{ForkPoint, diff};
use sandbar_testing::{Backend, StorageFixture, tree};

use crate::snapshots::snap;

/// Differences as people see them: path, kind.
fn changes(
    fixture: &StorageFixture,
    volume: &SessionId,
    from: &ForkPoint,
    to: &ForkPoint,
) -> BTreeMap<PathBuf, ChangeKind> {
    let view = |point| fixture.storage.view(volume, point).unwrap();
    let entries = diff::between(&view(from), &view(to)).unwrap();
    let told = entries
        .iter()
        .filter(|entry| !entry.change.aspects.only_time());
    told.map(|entry| (entry.change.path.clone(), entry.change.kind))
        .collect()
}

fn at(name: &str) -> ForkPoint {
    ForkPoint::Snapshot(snap(name))
}

fn expect(found: &BTreeMap<PathBuf, ChangeKind>, expected: &[(&str, ChangeKind)]) {
    let expected: BTreeMap<PathBuf, ChangeKind> = expected
        .iter()
        .map(|(path, kind)| (path.into(), *kind))
        .collect();
    assert_eq!(*found, expected);
}

/// Snapshots `s`, runs `change`, and returns the diff from `s` to now.
fn after(
    backend: Backend,
    prepare: impl FnOnce(&Path),
    change: impl FnOnce(&Path),
) -> BTreeMap<PathBuf, ChangeKind> {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    prepare(&root);
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    change(&root);
    changes(&fixture, &volume, &at("s"), &ForkPoint::Now)
}

pub(crate) fn nothing_differs_after_a_snapshot(backend: Backend) {
    let prepare = |root: &Path| {
        tree::one_of_everything(&root.join("workspace/all"));
        fs::remove_dir_all(root.join("usr/share")).unwrap();
    };
    expect(&after(backend, prepare, |_| {}), &[]);
}

pub(crate) fn diff_reports_added_modified_and_deleted(backend: Backend) {
    let change = |root: &Path| {
        fs::write(root.join("workspace/new"), "x").unwrap();
        fs::write(root.join("etc/config"), "changed").unwrap();
        fs::remove_file(root.join("usr/bin/tool-2")).unwrap();
        fs::write(root.join("usr/bin/tool-3"), "tool 3\n").unwrap();
    };
    let expected = [
        ("/workspace/new", ChangeKind::Added),
        ("/etc/config", ChangeKind::Modified),
        ("/usr/bin/tool-2", ChangeKind::Deleted),
    ];
    expect(&after(backend, |_| {}, change), &expected);
}

pub(crate) fn a_deleted_directory_is_listed_entry_by_entry(backend: Backend) {
    let found = after(
        backend,
        |_| {},
        |root| fs::remove_dir_all(root.join("usr/share/doc")).unwrap(),
    );
    let expected = [
        "",
        "/deep",
        "/deep/deeper",
        "/deep/deeper/leaf",
        "/deep/page-0",
        "/deep/page-1",
        "/deep/page-2",
    ];
    let expected = expected.into_iter().chain(["/deep/page-3", "/deep/page-4"]);
    let expected: Vec<String> = expected
        .map(|tail| format!("/usr/share/doc{tail}"))
        .collect();
    assert_eq!(
        found
            .keys()
            .map(|path| path.to_str().unwrap())
            .collect::<Vec<_>>(),
        expected
    );
    assert!(found.values().all(|kind| *kind == ChangeKind::Deleted));
}

pub(crate) fn diff_reports_a_type_change(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    fs::remove_file(root.join("etc/config")).unwrap();
    fs::create_dir(root.join("etc/config")).unwrap();
    fs::write(root.join("etc/config/inside"), "x").unwrap();
    let view = |point| fixture.storage.view(&volume, &point).unwrap();
    let entries = diff::between(&view(at("s")), &view(ForkPoint::Now)).unwrap();
    let changed = entries
        .iter()
        .find(|entry| entry.change.path == Path::new("/etc/config"))
        .unwrap();
    assert_eq!(
        (changed.change.kind, changed.change.entry),
        (ChangeKind::Modified, EntryType::Directory)
    );
    assert!(changed.change.aspects.contains(Aspect::Type));
    assert!(changed.source.as_ref().unwrap().is_dir());
    assert!(
        entries
            .iter()
            .any(|entry| entry.change.path == Path::new("/etc/config/inside"))
    );
}

pub(crate) fn diff_reports_attributes_owner_and_mode(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    tree::set_mode(&root.join("usr/bin/tool-0"), 0o4711);
    std::os::unix::fs::chown(root.join("usr/bin/tool-2"), Some(5), Some(6)).unwrap();
    tree::set_xattr(&root.join("usr/bin/tool-3"), "user.note", b"hello");
    tree::set_modified(&root.join("usr/bin/tool-4"), 5, 5);
    let view = |point| fixture.storage.view(&volume, &point).unwrap();
    let entries = diff::between(&view(at("s")), &view(ForkPoint::Now)).unwrap();
    let aspects: BTreeMap<&str, Vec<Aspect>> = entries
        .iter()
        .map(|entry| {
            (
                entry.change.path.to_str().unwrap(),
                entry.change.aspects.iter().collect(),
            )
        })
        .filter(|(path, _): &(&str, _)| path.contains("tool"))
        .collect();
    let expected = BTreeMap::from([
        ("/usr/bin/tool-0", vec![Aspect::Mode]),
        ("/usr/bin/tool-2", vec![Aspect::Owner]),
        ("/usr/bin/tool-3", vec![Aspect::Xattrs]),
        ("/usr/bin/tool-4", vec![Aspect::Time]),
    ]);
    assert_eq!(aspects, expected);
}

pub(crate) fn a_rewrite_with_equal_size_and_time_is_found(backend: Backend) {
    let prepare = |root: &Path| {
        fs::write(root.join("workspace/f"), "aaaa").unwrap();
        tree::set_modified(&root.join("workspace/f"), 1000, 0);
    };
    let change = |root: &Path| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(root.join("workspace/f"))
            .unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"bbbb", 0).unwrap();
        tree::set_modified(&root.join("workspace/f"), 1000, 0);
    };
    expect(
        &after(backend, prepare, change),
        &[("/workspace/f", ChangeKind::Modified)],
    );
}

pub(crate) fn a_snapshot_differs_from_a_later_one(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fixture.storage.snapshot(&volume, &snap("a")).unwrap();
    fs::write(root.join("first"), "x").unwrap();
    fixture.storage.snapshot(&volume, &snap("b")).unwrap();
    fs::write(root.join("second"), "x").unwrap();
    fixture.storage.snapshot(&volume, &snap("c")).unwrap();
    fs::remove_file(root.join("first")).unwrap();
    expect(
        &changes(&fixture, &volume, &at("a"), &at("b")),
        &[("/first", ChangeKind::Added)],
    );
    expect(
        &changes(&fixture, &volume, &at("b"), &at("c")),
        &[("/second", ChangeKind::Added)],
    );
    expect(
        &changes(&fixture, &volume, &at("c"), &at("a")),
        &[
            ("/first", ChangeKind::Deleted),
            ("/second", ChangeKind::Deleted),
        ],
    );
    expect(
        &changes(&fixture, &volume, &at("a"), &ForkPoint::Now),
        &[("/second", ChangeKind::Added)],
    );
}

pub(crate) fn diff_against_the_base_reports_the_writes(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("workspace/new"), "x").unwrap();
    fs::remove_file(root.join("usr/bin/tool")).unwrap();
    let base = fixture
        .storage
        .base_view(&fixture.storage.volume_base(&volume).unwrap())
        .unwrap();
    let now = fixture.storage.view(&volume, &ForkPoint::Now).unwrap();
    let found: BTreeMap<PathBuf, ChangeKind> = diff::between(&base, &now)
        .unwrap()
        .into_iter()
        .filter(|entry| !entry.change.aspects.only_time())
        .map(|entry| (entry.change.path, entry.change.kind))
        .collect();
    expect(
        &found,
        &[
            ("/workspace/new", ChangeKind::Added),
            ("/usr/bin/tool", ChangeKind::Deleted),
        ],
    );
}

/// Random edit of a file. Paths are drawn from a small set, so that edits collide.
#[derive(Clone, Debug)]
enum Edit {
    Write(PathBuf, u8, usize),
    Append(PathBuf, u8),
    Patch(PathBuf, u8),
    Truncate(PathBuf, u64),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    Symlink(PathBuf, PathBuf),
    HardLink(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf),
    Fifo(PathBuf),
    Mode(PathBuf, u32),
    Owner(PathBuf, u32),
    Attribute(PathBuf, u8),
    Touch(PathBuf),
}

fn path() -> impl Strategy<Value = PathBuf> {
    let component = prop::sample::select(vec![
        "usr", "bin", "tool-0", "etc", "config", "share", "doc", "deep", "a", "b",
    ]);
    prop_oneof![
        3 => prop::collection::vec(component, 1..4).prop_map(|parts| parts.iter().collect()),
        1 => prop::sample::select(vec!["usr/share/doc/deep/deeper/leaf", "usr/bin/tool-1", "usr/bin/tool", "workspace/x"])
            .prop_map(PathBuf::from),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (path(), any::<u8>(), 0usize..9000)
            .prop_map(|(path, byte, size)| Edit::Write(path, byte, size)),
        (path(), any::<u8>()).prop_map(|(path, byte)| Edit::Append(path, byte)),
        (path(), any::<u8>()).prop_map(|(path, byte)| Edit::Patch(path, byte)),
        (path(), 0u64..5000).prop_map(|(path, size)| Edit::Truncate(path, size)),
        path().prop_map(Edit::Remove),
        path().prop_map(Edit::MakeDirectory),
        (path(), path()).prop_map(|(target, path)| Edit::Symlink(target, path)),
        (path(), path()).prop_map(|(from, to)| Edit::HardLink(from, to)),
        (path(), path()).prop_map(|(from, to)| Edit::Rename(from, to)),
        path().prop_map(Edit::Fifo),
        (path(), 0u32..0o7777).prop_map(|(path, mode)| Edit::Mode(path, mode)),
        (path(), 0u32..5).prop_map(|(path, owner)| Edit::Owner(path, owner)),
        (path(), any::<u8>()).prop_map(|(path, byte)| Edit::Attribute(path, byte)),
        path().prop_map(Edit::Touch),
    ]
}

/// Carries out an edit; one that is not possible does nothing. Paths are under `root` and pass
/// through no link.
fn apply(root: &Path, edit: &Edit) {
    use std::{io::Write as _, os::unix::fs as unix};
    let plain = |path: &PathBuf| {
        let full = root.join(path);
        let through_link = path.ancestors().any(|part| {
            fs::symlink_metadata(root.join(part)).is_ok_and(|metadata| metadata.is_symlink())
        });
        let is_fifo = fs::symlink_metadata(&full)
            .is_ok_and(|metadata| std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type()));
        (!through_link && !is_fifo).then_some(full)
    };
    // Which edits are possible depends on the ones before; a failed one changes nothing and that is
    // fine.
    let _ = match edit {
        Edit::Write(path, byte, size) => {
            plain(path).map(|full| fs::write(full, vec![*byte; *size]).is_ok())
        }
        Edit::Append(path, byte) => plain(path).map(|full| {
            fs::OpenOptions::new()
                .append(true)
                .open(full)
                .and_then(|mut file| file.write_all(&[*byte; 10]))
                .is_ok()
        }),
        Edit::Patch(path, byte) => plain(path).map(|full| {
            fs::OpenOptions::new()
                .write(true)
                .open(full)
                .and_then(|mut file| file.write_all(&[*byte]))
                .is_ok()
        }),
        Edit::Truncate(path, size) => plain(path).map(|full| {
            fs::OpenOptions::new()
                .write(true)
                .open(full)
                .and_then(|file| file.set_len(*size))
                .is_ok()
        }),
        Edit::Remove(path) => plain(path).map(|full| {
            fs::remove_dir_all(&full)
                .or_else(|_| fs::remove_file(&full))
                .is_ok()
        }),
        Edit::MakeDirectory(path) => plain(path).map(|full| fs::create_dir_all(full).is_ok()),
        Edit::Symlink(target, path) => plain(path).map(|full| unix::symlink(target, full).is_ok()),
        Edit::HardLink(from, to) => plain(from)
            .zip(plain(to))
            .map(|(from, to)| fs::hard_link(from, to).is_ok()),
        Edit::Rename(from, to) => plain(from)
            .zip(plain(to))
            .map(|(from, to)| fs::rename(from, to).is_ok()),
        Edit::Fifo(path) => plain(path)
            .filter(|full| !full.exists() && full.parent().is_some_and(Path::is_dir))
            .map(|full| {
                tree::make_node(&full, rustix::fs::FileType::Fifo, 0, 0);
                true
            }),
        Edit::Mode(path, mode) => plain(path).filter(|full| full.exists()).map(|full| {
            tree::set_mode(&full, *mode);
            true
        }),
        Edit::Owner(path, owner) => {
            plain(path).map(|full| unix::chown(full, Some(*owner), Some(*owner)).is_ok())
        }
        Edit::Attribute(path, byte) => plain(path).filter(|full| full.exists()).map(|full| {
            tree::set_xattr(&full, "user.edit", &[*byte]);
            true
        }),
        Edit::Touch(path) => plain(path).filter(|full| full.exists()).map(|full| {
            tree::set_modified(&full, 1_000_000, 0);
            true
        }),
    };
}

/// Returns the result of comparing every entry of both trees. Times and link groups are ignored.
fn brute_force(
    before: &BTreeMap<PathBuf, tree::Entry>,
    after: &BTreeMap<PathBuf, tree::Entry>,
) -> BTreeMap<PathBuf, ChangeKind> {
    let bare = |entry: &tree::Entry| tree::Entry {
        modified: (0, 0),
        linked_to: None,
        ..entry.clone()
    };
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    paths
        .into_iter()
        .filter_map(|path| {
            let kind = match (before.get(path), after.get(path)) {
                (None, Some(_)) => ChangeKind::Added,
                (Some(_), None) => ChangeKind::Deleted,
                (Some(was), Some(is)) if bare(was) != bare(is) => ChangeKind::Modified,
                _ => return None,
            };
            Some((Path::new("/").join(path), kind))
        })
        .collect()
}

pub(crate) fn diff_equals_a_brute_force_comparison_for_random_histories(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let config = Config {
        cases: u32::try_from(sandbar_testing::scaled(200, 20)).unwrap(),
        failure_persistence: None,
        ..Config::default()
    };
    let history = || prop::collection::vec(edit(), 0..25);
    let number = Cell::new(0);
    TestRunner::new(config)
        .run(
            &(history(), history(), history(), any::<bool>()),
            |(first, second, third, go_back)| {
                number.set(number.get() + 1);
                let volume = fixture.volume(&format!("history-{}", number.get()));
                let take = |name: &str, edits: &[Edit]| {
                    let root = fixture.storage.mount(&volume).unwrap();
                    for edit in edits {
                        apply(&root, edit);
                    }
                    let name: SnapshotName = snap(name);
                    fixture.storage.snapshot(&volume, &name).unwrap();
                    tree::tree(&root)
                };
                let a = take("a", &first);
                let b = take("b", &second);
                if go_back {
                    fixture
                        .storage
                        .rollback(&volume, &snap("a"), LaterSnapshots::Keep)
                        .unwrap();
                }
                let c = take("c", &third);
                for (from, to, was, is) in
                    [("a", "b", &a, &b), ("b", "c", &b, &c), ("c", "a", &c, &a)]
                {
                    prop_assert_eq!(
                        changes(&fixture, &volume, &at(from), &at(to)),
                        brute_force(was, is),
                        "{} to {}",
                        from,
                        to
                    );
                }
                prop_assert_eq!(
                    changes(&fixture, &volume, &at("b"), &ForkPoint::Now),
                    brute_force(&b, &c),
                    "b to now"
                );
                fixture.storage.delete(&volume).unwrap();
                Ok(())
            },
        )
        .unwrap();
}
