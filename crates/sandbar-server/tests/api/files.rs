//! Files and directory trees over the wire.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use sandbar_client::WireProtocol;
use sandbar_core::{EntryType, ErrorCode, MakeDirOptions, WriteOptions};
use serde_json::json;

use crate::world::{PROTOCOLS, World};

#[test]
fn file_round_trip_works_over_every_protocol() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let session = world.session(&keeper).await;
        let content: Vec<u8> = (0..3_000_000u32)
            .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
            .collect();
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let path = PathBuf::from(format!("/workspace/deep/er/{protocol:?}"));
            let options = WriteOptions {
                mode: Some(0o640),
                create_dirs: true,
                owner: None,
            };
            let source = std::io::Cursor::new(content.clone());
            assert_eq!(
                client
                    .write_file(&session.id, &path, options, source)
                    .await
                    .unwrap(),
                3_000_000
            );
            let mut received = Vec::new();
            let stat = client
                .read_file(&session.id, &path, &mut received)
                .await
                .unwrap();
            assert!(received == content);
            assert_eq!(
                (stat.entry, stat.size.get(), stat.mode & 0o7777),
                (EntryType::File, 3_000_000, 0o640)
            );
            assert_eq!(client.stat(&session.id, &path).await.unwrap(), stat);
        }
        let listed = keeper
            .list_dir(&session.id, Path::new("/workspace"), 3)
            .await
            .unwrap();
        assert_eq!(listed.len(), 2 + PROTOCOLS.len(), "{listed:?}");
    });
}

#[test]
fn truncated_upload_changes_nothing() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let file = Path::new("/workspace/file");
        client
            .write_file(&session.id, file, WriteOptions::default(), &b"old"[..])
            .await
            .unwrap();
        let start = json!({"start": {"sessionId": session.id.as_str(), "path": "file"}});
        let answers = world
            .stream("WriteFile", &[start, json!({"data": "bmV3"})])
            .await;
        assert_eq!(
            answers.last().unwrap()["error"]["details"][0]["debug"]["field"],
            "part",
            "{answers:?}"
        );
        let mut content = Vec::new();
        client
            .read_file(&session.id, file, &mut content)
            .await
            .unwrap();
        assert_eq!(content, b"old");
        assert_eq!(
            client
                .list_dir(&session.id, Path::new("/workspace"), 1)
                .await
                .unwrap()
                .len(),
            1
        );
    });
}

#[test]
fn non_utf8_names_survive_the_wire() {
    World::run(async |world| {
        let client = world.client(WireProtocol::ConnectJson).await;
        let session = world.session(&client).await;
        let name = OsStr::from_bytes(b"/workspace/\xff\n\xfename");
        client
            .write_file(
                &session.id,
                Path::new(name),
                WriteOptions::default(),
                &b"x"[..],
            )
            .await
            .unwrap();
        let listed = client
            .list_dir(&session.id, Path::new("/workspace"), 1)
            .await
            .unwrap();
        assert_eq!(listed[0].path, name);
        assert_eq!(
            client
                .stat(&session.id, Path::new(name))
                .await
                .unwrap()
                .path,
            name
        );
    });
}

#[test]
fn directory_calls_work_over_every_protocol() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let session = world.session(&keeper).await;
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            // Also with a name that is not UTF-8.
            let (made, moved) = (
                Path::new("/workspace/a/b"),
                Path::new(OsStr::from_bytes(b"/workspace/\xff/c")),
            );
            let options = MakeDirOptions {
                create_dirs: true,
                owner: Some((1000, 1001)),
            };
            assert!(client.make_dir(&session.id, made, options).await.unwrap());
            assert!(!client.make_dir(&session.id, made, options).await.unwrap());
            client
                .move_path(&session.id, made, moved, options)
                .await
                .unwrap();
            let stat = client.stat(&session.id, moved).await.unwrap();
            assert_eq!(
                (stat.entry, stat.uid, stat.gid),
                (EntryType::Directory, 1000, 1001),
                "{protocol:?}"
            );
            let gone = client
                .move_path(&session.id, made, moved, options)
                .await
                .unwrap_err();
            assert_eq!(
                (gone.code(), gone.field()),
                (ErrorCode::FileNotFound, Some("path"))
            );
            for path in [moved.parent().unwrap(), moved, made.parent().unwrap()] {
                client.remove_path(&session.id, path).await.unwrap();
            }
            assert_eq!(
                client
                    .list_dir(&session.id, Path::new("/workspace"), 1)
                    .await
                    .unwrap(),
                []
            );
        }
    });
}

#[test]
fn tree_transfer_works_over_every_protocol() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let one = world.session(&keeper).await;
        let options = WriteOptions {
            mode: Some(0o750),
            create_dirs: true,
            owner: None,
        };
        keeper
            .write_file(
                &one.id,
                Path::new("/workspace/t/a/b"),
                options,
                &b"deep"[..],
            )
            .await
            .unwrap();
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let other = world.session(&client).await;
            let mut tar = Vec::new();
            let sent = client
                .export_tree(&one.id, Path::new("/workspace/t"), &mut tar)
                .await
                .unwrap();
            assert_eq!(sent, tar.len() as u64);
            let summary = client
                .import_tree(
                    &other.id,
                    Path::new("/workspace/here"),
                    std::io::Cursor::new(tar),
                )
                .await
                .unwrap();
            assert_eq!((summary.entries, summary.bytes), (3, 4));
            let mut content = Vec::new();
            let stat = client
                .read_file(&other.id, Path::new("/workspace/here/t/a/b"), &mut content)
                .await
                .unwrap();
            assert_eq!(
                (content.as_slice(), stat.mode & 0o7777),
                (&b"deep"[..], 0o750)
            );
        }
    });
}

#[test]
fn missing_path_and_invalid_tar_have_different_errors() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let session = world.session(&keeper).await;
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let missing = Path::new("/workspace/missing");
            let mut sink = Vec::new();
            for error in [
                client.stat(&session.id, missing).await.unwrap_err(),
                client
                    .read_file(&session.id, missing, &mut sink)
                    .await
                    .unwrap_err(),
                client.list_dir(&session.id, missing, 1).await.unwrap_err(),
                client
                    .export_tree(&session.id, missing, &mut sink)
                    .await
                    .unwrap_err(),
            ] {
                assert_eq!(
                    error.code(),
                    ErrorCode::FileNotFound,
                    "{protocol:?} {error:?}"
                );
            }
            let garbage = std::io::Cursor::new(vec![0x5a; 4096]);
            let error = client
                .import_tree(&session.id, Path::new("/tmp"), garbage)
                .await
                .unwrap_err();
            assert_eq!(
                error.code(),
                ErrorCode::InvalidArgument,
                "{protocol:?} {error:?}"
            );
        }
    });
}
