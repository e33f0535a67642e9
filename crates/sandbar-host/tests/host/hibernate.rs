//! Hibernating sessions into the object store, and waking them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    pin::Pin,
};

use sandbar_core::{
    ByteCount, ErrorCode, ExecSpec, ForkRequest, LaterSnapshots, Quiesce, SessionFilter, SessionId,
    SessionInfo, SessionState, SnapshotKind, WriteOptions,
};
use sandbar_storage::VolumeSpec;
use sandbar_tree::archive::{ArchiveEntry, ArchiveReader, ArchiveWriter, EntryKind, Segment};
use serde_json::json;

use crate::{
    fixture::{HostFixture, snap, spec},
    recovery::{intend, meanwhile},
    tools::request,
};

pub(crate) type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

const HOLE: u64 = 16 << 20;

pub(crate) fn packs_directory(fixture: &HostFixture) -> PathBuf {
    fixture.config.data_dir.join("packs")
}

/// The packs that are there, whole or not.
fn packs(fixture: &HostFixture) -> Vec<PathBuf> {
    match fs::read_dir(packs_directory(fixture)) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    }
}

/// The one pack there is.
fn the_pack(fixture: &HostFixture) -> PathBuf {
    let mut found = packs(fixture);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn copy_directory(from: &Path, to: &Path) {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

pub(crate) async fn hibernate(fixture: &HostFixture, id: &SessionId) -> SessionInfo {
    fixture.host.hibernate_session(id).await.unwrap()
}

pub(crate) async fn wake(fixture: &HostFixture, id: &SessionId) -> SessionInfo {
    fixture.host.wake_session(id).await.unwrap()
}

pub(crate) async fn state(fixture: &HostFixture, id: &SessionId) -> SessionState {
    fixture.host.get_session(id).await.unwrap().state
}

pub(crate) async fn packs_are_gone(fixture: &HostFixture) {
    fixture
        .eventually("the pack is deleted", async || {
            packs(fixture).is_empty().then_some(())
        })
        .await;
}

/// A tree with one of everything a session may hold.
fn everything() -> Vec<u8> {
    let entry = |path: &str, kind: EntryKind| ArchiveEntry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        modified: rustix::fs::Timespec {
            tv_sec: 1_500_000_000,
            tv_nsec: 0,
        },
        size: 0,
        segments: None,
        xattrs: Vec::new(),
    };
    let mut archive = ArchiveWriter::new(Vec::new());
    archive
        .append(&entry("all", EntryKind::Directory), &mut std::io::empty())
        .unwrap();
    archive
        .append(
            &entry("all/empty", EntryKind::Directory),
            &mut std::io::empty(),
        )
        .unwrap();
    let mut file = entry("all/file", EntryKind::File);
    (file.mode, file.uid, file.gid, file.size) = (0o2640, 1000, 100, 7);
    file.xattrs = vec![(c"user.note".into(), b"kept".to_vec())];
    archive.append(&file, &mut &b"content"[..]).unwrap();
    let link = EntryKind::HardLink {
        target: b"all/file".to_vec(),
    };
    archive
        .append(&entry("all/same-file", link), &mut std::io::empty())
        .unwrap();
    let link = EntryKind::Symlink {
        target: b"../nowhere".to_vec(),
    };
    archive
        .append(&entry("all/symlink", link), &mut std::io::empty())
        .unwrap();
    archive
        .append(&entry("all/pipe", EntryKind::Fifo), &mut std::io::empty())
        .unwrap();
    let mut holes = entry("all/holes", EntryKind::File);
    holes.size = HOLE;
    holes.segments = Some(vec![Segment {
        offset: HOLE - 3,
        length: 3,
    }]);
    archive.append(&holes, &mut &b"end"[..]).unwrap();
    archive.finish().unwrap().0
}

/// Content of a tree, without the positions of holes, which differ between file systems.
type Entries = Vec<(
    String,
    EntryKind,
    u32,
    (u32, u32),
    i64,
    u64,
    Vec<(std::ffi::CString, Vec<u8>)>,
)>;

async fn exported(fixture: &HostFixture, id: &SessionId, path: &str) -> Entries {
    let tar = fixture.exported(id, path).await;
    let mut archive = ArchiveReader::new(&tar[..]);
    let mut found = Vec::new();
    while let Some(entry) = archive.next_entry().unwrap() {
        let path = String::from_utf8(entry.path).unwrap();
        let (owner, modified) = ((entry.uid, entry.gid), entry.modified.tv_sec);
        found.push((
            path,
            entry.kind,
            entry.mode,
            owner,
            modified,
            entry.size,
            entry.xattrs,
        ));
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found
}

/// Writes until there is no room left, which is soon in a session with a quota.
async fn fill_up(fixture: &HostFixture, id: &SessionId) {
    let mut noise = blake3::Hasher::new().finalize_xof();
    for round in 0..50 {
        let mut piece = vec![0; 1 << 20];
        noise.fill(&mut piece);
        let path = format!("/workspace/noise-{round}");
        let mut writer = fixture
            .host
            .write_file(id, path.as_ref(), WriteOptions::default())
            .await
            .unwrap();
        let written = match writer.write(piece.into()).await {
            Ok(()) => writer.commit().await,
            failed => failed,
        };
        if let Err(error) = written {
            assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
            return;
        }
    }
    panic!("the quota did not come back");
}

pub(crate) fn woken_session_is_as_it_was(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let mut wanted = spec("s");
        wanted.labels.insert("kept".into(), "yes".into());
        let limited = fixture.host.capabilities().quota.reason().is_none();
        wanted.quota = limited.then_some(ByteCount::mib(8));
        let id = fixture.make(wanted).await.id;
        let mut writer = fixture
            .host
            .import_tree(&id, "/workspace".as_ref())
            .await
            .unwrap();
        writer.write(everything().into()).await.unwrap();
        writer.finish().await.unwrap();
        fixture.host.turn_complete(&id).await.unwrap();
        fixture.write(&id, "all/file", "changed").await;
        fixture.snapshot(&id, "named").await;
        fixture.write(&id, "after", "all snapshots").await;
        let (tree, list) = (
            exported(fixture, &id, "all").await,
            fixture.host.list_snapshots(&id).await.unwrap(),
        );
        assert_eq!(tree.len(), 7);
        let before = fixture.host.get_session(&id).await.unwrap();

        let away = hibernate(fixture, &id).await;
        assert_eq!(
            (away.state, away.space_used),
            (SessionState::Hibernated, ByteCount(0))
        );
        assert!(the_pack(fixture).join("manifest.json").exists());
        assert_eq!(
            fs::metadata(packs_directory(fixture))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
        // The volume is really gone, and the next host knows the session all the same.
        meanwhile(fixture, |storage, _| {
            assert_eq!(storage.volumes().unwrap(), []);
        })
        .await;
        assert_eq!(fixture.host.get_session(&id).await.unwrap(), away);
        assert_eq!(fixture.host.list_snapshots(&id).await.unwrap(), list);

        let back = wake(fixture, &id).await;
        assert!(back.space_used < ByteCount(HOLE), "{}", back.space_used);
        assert_eq!(
            SessionInfo {
                space_used: before.space_used,
                ..back
            },
            before
        );
        assert_eq!(packs(fixture), [] as [PathBuf; 0]);
        assert_eq!(fixture.host.list_snapshots(&id).await.unwrap(), list);
        assert_eq!(
            list.iter()
                .map(|snapshot| snapshot.kind)
                .collect::<Vec<_>>(),
            [SnapshotKind::Turn, SnapshotKind::Named]
        );
        assert_eq!(exported(fixture, &id, "all").await, tree);
        let holes = fixture.read(&id, "all/holes").await.unwrap();
        assert_eq!(
            (holes.len() as u64, &holes[holes.len() - 3..]),
            (HOLE, "end")
        );
        assert_eq!(
            fixture.read(&id, "after").await.as_deref(),
            Some("all snapshots")
        );

        assert_eq!(
            fixture
                .host
                .diff(&id, &snap("named"), None)
                .await
                .unwrap()
                .len(),
            1
        );
        assert_eq!(
            fixture.host.turn_complete(&id).await.unwrap().name,
            snap("turn-0002")
        );
        fixture
            .host
            .rollback_session(&id, &snap("turn-0001"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(
            fixture.read(&id, "all/file").await.as_deref(),
            Some("content")
        );
        assert_eq!(fixture.read(&id, "after").await, None);
        // And again, with what is there now.
        hibernate(fixture, &id).await;
        wake(fixture, &id).await;
        assert_eq!(
            fixture.read(&id, "all/same-file").await.as_deref(),
            Some("content")
        );
        if limited {
            fill_up(fixture, &id).await;
        }
    })
}

pub(crate) fn hibernated_session_can_only_be_listed_woken_and_destroyed(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.snapshot(&id, "one").await;
        assert_eq!(
            fixture.host.wake_session(&id).await.unwrap_err().code(),
            ErrorCode::InvalidState
        );
        hibernate(fixture, &id).await;
        let filter = SessionFilter {
            state: Some(SessionState::Hibernated),
            ..SessionFilter::default()
        };
        let listed = fixture
            .host
            .list_sessions(&filter, &sandbar_core::PageRequest::default())
            .await
            .unwrap();
        assert_eq!(listed.items.len(), 1);

        let (host, name) = (&fixture.host, snap("one"));
        let path = "/workspace/f".as_ref();
        let refused = [
            host.exec(&id, ExecSpec::new(["true"])).await.err(),
            host.execute_tool(&id, request("read_file", json!({"path": "f"})))
                .await
                .err(),
            host.open_file(&id, path).await.err(),
            host.write_file(&id, path, WriteOptions::default())
                .await
                .err(),
            host.export_tree(&id, path).await.err(),
            host.turn_complete(&id).await.err(),
            host.create_snapshot(&id, None, Quiesce::WhereNeeded)
                .await
                .err(),
            host.delete_snapshot(&id, &name).await.err(),
            host.diff(&id, &name, None).await.err(),
            host.rollback_session(&id, &name, LaterSnapshots::Drop)
                .await
                .err(),
            host.fork_session(&id, ForkRequest::default()).await.err(),
            host.pause_session(&id).await.err(),
            host.hibernate_session(&id).await.err(),
        ];
        for (number, error) in refused.into_iter().enumerate() {
            let error = error.unwrap();
            assert_eq!(
                error.code(),
                ErrorCode::SessionPaused,
                "{number}: {}",
                error.chain()
            );
            assert!(
                error.hint().unwrap().contains("sandbar wake s"),
                "{number}: {error}"
            );
        }
        assert_eq!(
            host.resume_session(&id).await.unwrap_err().code(),
            ErrorCode::InvalidState
        );
        let base = host
            .delete_base(&"small".parse().unwrap())
            .await
            .unwrap_err();
        assert_eq!(
            (base.code(), base.field()),
            (ErrorCode::InvalidState, Some("base"))
        );

        host.destroy_session(&id).await.unwrap();
        assert_eq!(packs(fixture), [] as [PathBuf; 0]);
        assert_eq!(
            host.get_session(&id).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        host.delete_base(&"small".parse().unwrap()).await.unwrap();
    })
}

pub(crate) fn hibernate_stops_processes_and_keeps_their_files(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let script = "echo mine > file; echo begun > begun; sleep 600";
        let mut command = fixture
            .host
            .exec(&id, ExecSpec::new(["/bin/sh", "-c", script]))
            .await
            .unwrap();
        fixture
            .eventually("it runs", async || {
                fixture.read(&id, "/workspace/begun").await
            })
            .await;
        let owners = fixture.exported_owners(&id, "/workspace").await;
        // From paused, where anything can be paused.
        if fixture.host.capabilities().pause.reason().is_none() {
            fixture.host.pause_session(&id).await.unwrap();
        }
        hibernate(fixture, &id).await;
        while command.next_event().await.is_some() {}
        assert_eq!(wake(fixture, &id).await.state, SessionState::Active);
        assert_eq!(fixture.exported_owners(&id, "/workspace").await, owners);
        assert_eq!(
            fixture.shell(&id, "cat file; echo more >> file").await,
            ("mine\n".into(), Some(0))
        );
        assert_eq!(
            fixture.read(&id, "/workspace/file").await.as_deref(),
            Some("mine\nmore\n")
        );
    })
}

pub(crate) fn woken_session_has_its_tree_of_snapshots(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        for step in ["root", "left"] {
            fixture.write(&id, step, step).await;
            fixture.write(&id, "step", step).await;
            fixture.snapshot(&id, step).await;
        }
        fixture
            .host
            .rollback_session(&id, &snap("root"), LaterSnapshots::Keep)
            .await
            .unwrap();
        fixture.write(&id, "right", "right").await;
        fixture.snapshot(&id, "right").await;
        fixture
            .host
            .rollback_session(&id, &snap("root"), LaterSnapshots::Keep)
            .await
            .unwrap();
        let lineage = fixture.host.list_snapshots(&id).await.unwrap();
        hibernate(fixture, &id).await;
        wake(fixture, &id).await;
        assert_eq!(fixture.host.list_snapshots(&id).await.unwrap(), lineage);
        let present = async |id: &SessionId| {
            let mut found = Vec::new();
            for name in ["root", "left", "right"] {
                found.extend(fixture.read(id, name).await);
            }
            (found.join(" "), fixture.read(id, "step").await.unwrap())
        };
        assert_eq!(present(&id).await, ("root".into(), "root".into()));
        for (name, expected) in [
            ("root", ("root", "root")),
            ("left", ("root left", "left")),
            ("right", ("root right", "root")),
        ] {
            let request = ForkRequest {
                from: Some(snap(name)),
                ..ForkRequest::default()
            };
            let fork = fixture
                .host
                .fork_session(&id, request)
                .await
                .unwrap()
                .remove(0)
                .id;
            let found = present(&fork).await;
            assert_eq!((found.0.as_str(), found.1.as_str()), expected, "{name}");
        }
        // The head of the volume is still the root.
        fixture.snapshot(&id, "next").await;
        assert_eq!(
            fixture
                .host
                .list_snapshots(&id)
                .await
                .unwrap()
                .pop()
                .unwrap()
                .parent,
            Some(snap("root"))
        );
        fixture
            .host
            .rollback_session(&id, &snap("left"), LaterSnapshots::Keep)
            .await
            .unwrap();
        assert_eq!(present(&id).await.1, "left");
    })
}

pub(crate) fn failed_hibernate_or_wake_changes_nothing(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "f", "content").await;
        fixture.snapshot(&id, "one").await;
        // A file where the object store should be: it is found out before anything is disturbed.
        let directory = packs_directory(fixture);
        fs::write(&directory, "in the way").unwrap();
        let error = fixture.host.hibernate_session(&id).await.unwrap_err();
        assert!(error.chain().contains("packs"), "{}", error.chain());
        fs::remove_file(&directory).unwrap();
        // A store with too little room: it is found out in the middle.
        fs::create_dir(&directory).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount(
            "none",
            &directory,
            "tmpfs",
            flags,
            Some(c"size=4k,nr_inodes=4"),
        )
        .unwrap();
        let outcome = fixture.host.hibernate_session(&id).await;
        rustix::mount::unmount(&directory, rustix::mount::UnmountFlags::DETACH).unwrap();
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
        assert_eq!(state(fixture, &id).await, SessionState::Active);
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("content"));
        fixture.write(&id, "g", "it can be used").await;

        hibernate(fixture, &id).await;
        for file in files_below(&the_pack(fixture)) {
            let good = fs::read(&file).unwrap();
            let mut bad = good.clone();
            bad[good.len() / 2] ^= 0x55;
            fs::write(&file, bad).unwrap();
            let damaged = fixture.host.wake_session(&id).await.unwrap_err();
            fs::remove_file(&file).unwrap();
            let missing = fixture.host.wake_session(&id).await.unwrap_err();
            for error in [damaged, missing] {
                assert_eq!(error.code(), ErrorCode::InvalidState, "{}", error.chain());
                assert!(
                    error.hint().unwrap().contains("sandbar rm s"),
                    "{}",
                    error.chain()
                );
            }
            assert_eq!(state(fixture, &id).await, SessionState::Hibernated);
            fs::write(&file, good).unwrap();
        }
        meanwhile(fixture, |storage, _| {
            assert_eq!(storage.volumes().unwrap(), []);
        })
        .await;
        wake(fixture, &id).await;
        assert_eq!(
            fixture.read(&id, "g").await.as_deref(),
            Some("it can be used")
        );
    })
}

pub(crate) fn unfinished_hibernate_is_undone_or_finished_at_start(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "f", "content").await;
        let directory = packs_directory(fixture);
        // Killed while packing: the volume is still the session.
        meanwhile(fixture, |_, database| {
            fs::create_dir_all(directory.join("s.1/x")).unwrap();
            fs::write(directory.join("s.1/x/000000.tar.zst"), "half").unwrap();
            fs::write(directory.join("s.1/x/000001.tar.zst#1"), "half").unwrap();
            intend(
                database,
                r#"{"do": "hibernate", "session": "s", "pack": "s.1"}"#,
            );
        })
        .await;
        assert_eq!(state(fixture, &id).await, SessionState::Active);
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("content"));
        packs_are_gone(fixture).await;

        // Killed before the volume was deleted, or while another one was unpacked: the pack is the
        // authoritative. The last time, no intent was left.
        hibernate(fixture, &id).await;
        for intent in [Some(r#"{"do": "free-volume", "session": "s"}"#), None] {
            meanwhile(fixture, |storage, database| {
                let spec = VolumeSpec {
                    base: "small".parse().unwrap(),
                    quota: None,
                };
                storage.create(&"s".parse().unwrap(), &spec).unwrap();
                if let Some(intent) = intent {
                    intend(database, intent);
                }
            })
            .await;
            assert_eq!(state(fixture, &id).await, SessionState::Hibernated);
            meanwhile(fixture, |storage, _| {
                assert_eq!(storage.volumes().unwrap(), []);
            })
            .await;
        }

        // Killed before the pack of a woken session was deleted: the volume is the session again.
        // An old intent about a volume of its name does not touch it.
        let (pack, copy) = (the_pack(fixture), fixture.storage.scratch().join("copy"));
        copy_directory(&pack, &copy);
        wake(fixture, &id).await;
        meanwhile(fixture, |_, database| {
            copy_directory(&copy, &directory.join("s.2"));
            intend(database, r#"{"do": "delete-pack", "pack": "s.2"}"#);
            intend(database, r#"{"do": "free-volume", "session": "s"}"#);
        })
        .await;
        packs_are_gone(fixture).await;
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("content"));

        // Killed while a hibernated session was destroyed, and one that expired while no host ran.
        let late = fixture.session("late").await;
        hibernate(fixture, &id).await;
        hibernate(fixture, &late).await;
        meanwhile(fixture, |_, database| {
            intend(database, r#"{"do": "destroy", "session": "s"}"#);
            database
                .execute("UPDATE session SET expires = 1 WHERE id = 'late'", [])
                .unwrap();
        })
        .await;
        packs_are_gone(fixture).await;
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        fixture
            .eventually("it is destroyed", async || {
                fixture.host.get_session(&late).await.is_err().then_some(())
            })
            .await;
    })
}
