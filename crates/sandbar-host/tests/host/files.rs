use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use sandbar_core::{
    AuditQuery, EntryType, ErrorCode, ForkRequest, LaterSnapshots, MakeDirOptions, SessionId,
    WriteOptions,
};

use sandbar_host::HostConfig;

use crate::fixture::{HostFixture, snap};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A command that tells mode, user and group of the file behind it. Not `stat`: it asks in a way
/// gVisor of 2022 refuses.
fn look(format: &str) -> String {
    format!(r#"perl -e '@s = stat shift; printf "{format}\n", $s[2] & 07777, $s[4], $s[5]'"#)
}

pub(crate) fn command_reads_a_written_file(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.write(&id, "deep/er/file", "content").await;
        assert_eq!(
            fixture
                .shell(
                    &id,
                    &format!("cat deep/er/file; {} deep/er/file", look("%o"))
                )
                .await
                .0,
            "content644\n"
        );
        fixture.import(&id, "deep/er/file", (12, 34), 0o4755).await;
        fixture.shell(&id, "ln -s deep/er/file link").await;
        fixture.write(&id, "link", "through the link").await;
        let (seen, _) = fixture
            .shell(
                &id,
                &format!(
                    "test -L link && cat deep/er/file; {} deep/er/file",
                    look(" %o %d:%d")
                ),
            )
            .await;
        assert_eq!(seen, "through the link 4755 12:34\n");
        let stat = fixture.host.stat(&id, "link".as_ref()).await.unwrap();
        assert_eq!(stat.entry, EntryType::Symlink);
        assert_eq!(stat.symlink_target.unwrap().to_str(), Some("deep/er/file"));
        let listed = fixture.host.list_dir(&id, ".".as_ref(), 3).await.unwrap();
        let names: Vec<_> = listed
            .iter()
            .map(|entry| entry.path.to_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "/workspace/./deep",
                "/workspace/./deep/er",
                "/workspace/./deep/er/file",
                "/workspace/./link"
            ]
        );
    })
}

pub(crate) fn owners_are_shown_as_inside_the_session(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.write(&id, "dir/made", "x").await;
        fixture.import(&id, "dir/given", (12, 34), 0o644).await;
        fixture
            .import(&id, "dir/far", (4_000_000, 4_000_000), 0o644)
            .await;
        let (command, _) = fixture
            .shell(&id, "touch dir/by-command; id -u; id -g")
            .await;
        let command: Vec<u32> = command.lines().map(|line| line.parse().unwrap()).collect();
        let owners = [
            ("dir", (0, 0)),
            ("dir/by-command", (command[0], command[1])),
            ("dir/given", (12, 34)),
        ];
        let owners = owners
            .into_iter()
            .chain([("dir/made", (0, 0))])
            .collect::<Vec<_>>();
        fixture.snapshot(&id, "s").await;
        let check = async |id: &SessionId| {
            for (path, (user, group)) in owners.iter().copied() {
                let (seen, _) = fixture
                    .shell(id, &format!("{} {path}", look("%2\\$d:%3\\$d")))
                    .await;
                assert_eq!(seen, format!("{user}:{group}\n"), "{path}");
                let stat = fixture.host.stat(id, path.as_ref()).await.unwrap();
                assert_eq!((stat.uid, stat.gid), (user, group), "{path}");
            }
            let listed = fixture.host.list_dir(id, "dir".as_ref(), 1).await.unwrap();
            let listed: Vec<_> = listed.iter().map(|entry| (entry.uid, entry.gid)).collect();
            let exported = fixture.exported_owners(id, "dir").await;
            // An owner outside the mapped range is shown as the overflow uid everywhere.
            let far = listed[1];
            assert!(
                [(4_000_000, 4_000_000), (65_534, 65_534)].contains(&far),
                "{far:?}"
            );
            let (inside, _) = fixture
                .shell(id, &format!("{} dir/far", look("%2\\$d:%3\\$d")))
                .await;
            assert!(
                [format!("{}:{}\n", far.0, far.1), "65534:65534\n".into()].contains(&inside),
                "{inside}"
            );
            assert_eq!(listed, [owners[1].1, far, owners[2].1, owners[3].1]);
            let mut expected: Vec<_> = owners
                .iter()
                .map(|(path, owner)| ((*path).to_owned(), *owner))
                .collect();
            expected.insert(2, ("dir/far".to_owned(), far));
            let plain = |(path, owner): (String, _)| (path.trim_end_matches('/').to_owned(), owner);
            assert_eq!(
                exported.into_iter().map(plain).collect::<Vec<_>>(),
                expected
            );
        };
        check(&id).await;
        fixture
            .host
            .rollback_session(&id, &snap("s"), LaterSnapshots::Drop)
            .await
            .unwrap();
        check(&id).await;
        let fork = ForkRequest {
            ids: vec!["f".parse().unwrap()],
            ..ForkRequest::default()
        };
        fixture.host.fork_session(&id, fork).await.unwrap();
        check(&"f".parse().unwrap()).await;
    })
}

pub(crate) fn links_do_not_lead_outside_the_session(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let outside = fixture.storage.scratch().join("secret");
        std::fs::write(&outside, "host secret").unwrap();
        let outside = outside.to_str().unwrap();
        let climb = format!("{}{outside}", "../".repeat(20));
        fixture
            .shell(&id, &format!("ln -s {outside} absolute; ln -s {climb} relative; ln -s / root; ln -s loop loop"))
            .await;
        for path in [
            "absolute",
            "relative",
            outside,
            climb.as_str(),
            &format!("root{outside}"),
        ] {
            assert_eq!(fixture.read(&id, path).await, None, "{path}");
        }
        let looped = fixture
            .host
            .open_file(&id, "loop".as_ref())
            .await
            .unwrap_err();
        assert_eq!(
            (looped.code(), looped.field()),
            (ErrorCode::InvalidArgument, Some("path"))
        );
        let options = WriteOptions {
            create_dirs: true,
            ..WriteOptions::default()
        };
        for path in ["absolute", "relative"] {
            // Writing through such a link ends inside, too.
            let mut writer = fixture
                .host
                .write_file(&id, path.as_ref(), options)
                .await
                .unwrap();
            writer
                .write(Bytes::from_static(b"from the session"))
                .await
                .unwrap();
            writer.commit().await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "host secret");
        for (path, code) in [
            ("/", ErrorCode::InvalidArgument),
            ("", ErrorCode::InvalidArgument),
            ("/dev", ErrorCode::InvalidArgument),
            ("/no/such/file", ErrorCode::FileNotFound),
        ] {
            let error = fixture
                .host
                .open_file(&id, path.as_ref())
                .await
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (code, Some("path")),
                "{path}"
            );
        }
    })
}

pub(crate) fn files_created_for_a_user_belong_to_it(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let owner = Some((1000, 1001));
        let made = MakeDirOptions {
            create_dirs: true,
            owner,
        };
        assert!(
            fixture
                .host
                .make_dir(&id, "a/b".as_ref(), made)
                .await
                .unwrap()
        );
        assert!(
            !fixture
                .host
                .make_dir(&id, "a/b".as_ref(), made)
                .await
                .unwrap()
        );
        fixture.write(&id, "replaced", "of root").await;
        for path in ["a/c/file", "replaced"] {
            let options = WriteOptions {
                create_dirs: true,
                owner,
                mode: None,
            };
            let mut writer = fixture
                .host
                .write_file(&id, path.as_ref(), options)
                .await
                .unwrap();
            writer.write(Bytes::from_static(b"x")).await.unwrap();
            writer.commit().await.unwrap();
        }
        fixture
            .host
            .move_path(&id, "replaced".as_ref(), "d/e/moved".as_ref(), made)
            .await
            .unwrap();
        for path in ["a", "a/b", "a/c", "a/c/file", "d", "d/e", "d/e/moved"] {
            let (seen, _) = fixture
                .shell(&id, &format!("{} {path}", look("%2\\$d:%3\\$d")))
                .await;
            assert_eq!(seen, "1000:1001\n", "{path}");
        }
        let over = fixture
            .host
            .make_dir(&id, "a/c/file".as_ref(), made)
            .await
            .unwrap_err();
        assert_eq!(
            (over.code(), over.field()),
            (ErrorCode::InvalidArgument, Some("path"))
        );
    })
}

pub(crate) fn directories_are_moved_and_removed_even_of_the_base(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        let options = MakeDirOptions {
            create_dirs: true,
            owner: None,
        };
        let (from, to) = ("/usr/share/doc", "/workspace/far/doc");
        fixture
            .host
            .move_path(&id, from.as_ref(), to.as_ref(), options)
            .await
            .unwrap();
        assert_eq!(
            fixture
                .read(&id, "far/doc/deep/deeper/leaf")
                .await
                .as_deref(),
            Some("leaf\n")
        );
        assert_eq!(
            fixture.read(&id, "/usr/share/doc/deep/deeper/leaf").await,
            None
        );
        assert_eq!(
            fixture
                .host
                .list_dir(&id, "far".as_ref(), 1)
                .await
                .unwrap()
                .len(),
            1,
            "no traces of the copy"
        );
        // A link is moved and removed itself.
        let tool = "/usr/bin/tool";
        let details = fixture.host.file_details(&id, tool.as_ref()).await.unwrap();
        assert_eq!(
            details.link_end.unwrap().path.to_str(),
            Some("/usr/bin/tool-0")
        );
        fixture.host.remove_path(&id, tool.as_ref()).await.unwrap();
        assert_eq!(
            fixture.read(&id, "/usr/bin/tool-0").await.as_deref(),
            Some("tool 0\n")
        );
        for path in ["/usr", "far", "far", "/no/such/thing"] {
            fixture.host.remove_path(&id, path.as_ref()).await.unwrap();
            let gone = fixture.host.stat(&id, path.as_ref()).await.unwrap_err();
            assert_eq!(gone.code(), ErrorCode::FileNotFound, "{path}");
        }
        for refused in ["/", "..", ""] {
            let error = fixture
                .host
                .remove_path(&id, refused.as_ref())
                .await
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("path")),
                "{refused}"
            );
        }
        let log = fixture
            .host
            .audit(&id, AuditQuery::default())
            .await
            .unwrap()
            .items;
        let moved = log.iter().find(|entry| entry.what == "move_path").unwrap();
        assert_eq!(
            (&moved.detail["path"], &moved.detail["new_path"]),
            (&from.into(), &to.into())
        );
        assert_eq!(
            log.iter()
                .filter(|entry| entry.what == "remove_path")
                .count(),
            7
        );
    })
}

pub(crate) fn dropped_writer_changes_nothing(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "f", "old").await;
        let mut writer = fixture
            .host
            .write_file(&id, "f".as_ref(), WriteOptions::default())
            .await
            .unwrap();
        writer.write(Bytes::from_static(b"half")).await.unwrap();
        drop(writer);
        assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("old"));
        assert_eq!(
            fixture
                .host
                .list_dir(&id, "/workspace".as_ref(), 1)
                .await
                .unwrap()
                .len(),
            1
        );
    })
}

pub(crate) fn writer_fails_after_a_rollback(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.snapshot(&id, "s").await;
        let mut writer = fixture
            .host
            .write_file(&id, "f".as_ref(), WriteOptions::default())
            .await
            .unwrap();
        writer.write(Bytes::from_static(b"late")).await.unwrap();
        fixture
            .host
            .rollback_session(&id, &snap("s"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(
            writer.commit().await.unwrap_err().code(),
            ErrorCode::InvalidState
        );
        assert_eq!(fixture.read(&id, "f").await, None);
    })
}

pub(crate) fn exported_tree_can_be_imported(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "tree/a", "1").await;
        fixture
            .write(&id, "tree/deep/b", &"2".repeat(700_000))
            .await;
        let mut reader = fixture
            .host
            .export_tree(&id, "tree".as_ref())
            .await
            .unwrap();
        let mut tar = Vec::new();
        while let Some(piece) = reader.next().await {
            tar.extend_from_slice(&piece.unwrap());
        }
        let mut writer = fixture
            .host
            .import_tree(&id, "copy/below".as_ref())
            .await
            .unwrap();
        for piece in tar.chunks(100_000) {
            writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        let summary = writer.finish().await.unwrap();
        assert_eq!((summary.entries, summary.bytes), (4, 700_001));
        assert_eq!(
            fixture.read(&id, "copy/below/tree/a").await.as_deref(),
            Some("1")
        );
        assert_eq!(
            fixture.read(&id, "copy/below/tree/deep/b").await,
            Some("2".repeat(700_000))
        );
        let mut broken = fixture
            .host
            .import_tree(&id, "broken".as_ref())
            .await
            .unwrap();
        broken
            .write(Bytes::copy_from_slice(&tar[..5000]))
            .await
            .unwrap();
        assert!(broken.finish().await.is_err());
        let missing = fixture
            .host
            .export_tree(&id, "no-such".as_ref())
            .await
            .unwrap_err();
        assert_eq!(missing.code(), ErrorCode::FileNotFound);
    })
}

pub(crate) fn unread_tree_export_does_not_block_destroy(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            pause_drain_timeout: Duration::from_millis(50),
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let id = fixture.session("s").await;
        // More than may wait for a slow reader.
        fixture
            .write(&id, "/workspace/large", &"x".repeat(4 << 20))
            .await;
        fixture.snapshot(&id, "s").await;
        let mut out = fixture
            .host
            .export_tree(&id, "/workspace".as_ref())
            .await
            .unwrap();
        let mut into = fixture
            .host
            .import_tree(&id, "/workspace".as_ref())
            .await
            .unwrap();
        let busy = fixture
            .host
            .rollback_session(&id, &snap("s"), LaterSnapshots::Drop)
            .await
            .unwrap_err();
        assert_eq!(busy.code(), ErrorCode::ToolsInFlight);
        fixture.host.destroy_session(&id).await.unwrap();
        let mut last = None;
        while let Some(piece) = out.next().await {
            last = Some(piece);
        }
        assert!(
            last.unwrap().is_err(),
            "the stream ends as if it were whole"
        );
        assert!(into.write("more".into()).await.is_err());
    })
}
