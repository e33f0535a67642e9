//! Uploads and downloads of files, in every format.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use sandbar_core::{BaseName, ByteCount, SessionSpec};
use serde_json::{Value, json};

use crate::{client::Sandbox, uploads::form, world::World};

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn file_is_uploaded_in_a_form_and_read() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let written = sandbox.write("a/b/note.txt", b"hello").await;
        assert_eq!(
            written,
            json!([{ "path": "/home/user/a/b/note.txt", "name": "note.txt", "type": "file" }])
        );
        let answer = sandbox.get("a/b/note.txt", &[]).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "hello"));
        assert_eq!(answer.headers["content-length"], "5");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        let owners = sandbox
            .bash("stat -c '%U:%G %a' a a/b a/b/note.txt; ls -A a/b")
            .await
            .text();
        assert_eq!(
            owners,
            "user:user 755\nuser:user 755\nuser:user 644\nnote.txt\n"
        );
        // A replaced file keeps its mode and is owned by the writing user.
        sandbox
            .as_user("root")
            .bash("chmod 600 /home/user/a/b/note.txt; chown 0:0 /home/user/a/b/note.txt")
            .await;
        sandbox.write("a/b/note.txt", b"short").await;
        assert_eq!(
            sandbox
                .bash("stat -c '%U %a' a/b/note.txt; cat a/b/note.txt")
                .await
                .text(),
            "user 600\nshort"
        );
        let everything: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        sandbox.write("ünïcode/文件 ?&#.bin", &everything).await;
        assert_eq!(
            sandbox.get("ünïcode/文件 ?&#.bin", &[]).await.body,
            everything
        );
        sandbox.write("empty", b"").await;
        assert_eq!(sandbox.get("empty", &[]).await.body, "");
    });
}

#[test]
fn form_uploads_many_files_by_name() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let names: Vec<String> = (0..10)
            .map(|n| format!("/home/user/many/{n}.txt"))
            .collect();
        let files: Vec<(&str, &[u8])> = names
            .iter()
            .map(|name| (name.as_str(), name.as_bytes()))
            .collect();
        let (kind, body) = form(&files);
        let answer = sandbox
            .post("/files", &[("content-type", &kind)], body)
            .await;
        let written: Vec<Value> = answer.json().as_array().unwrap().clone();
        assert_eq!(
            written
                .iter()
                .map(|file| file["path"].as_str().unwrap())
                .collect::<Vec<_>>(),
            names
        );
        for name in &names {
            assert_eq!(sandbox.read(name).await, *name);
        }
        let (kind, body) = form(&[("twice", b"1"), ("./twice", b"2")]);
        let answer = sandbox
            .post("/files", &[("content-type", &kind)], body)
            .await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["code"].as_u64()),
            (400, Some(400))
        );
        assert!(
            answer
                .text()
                .contains("multiple files to the same path '/home/user/twice'"),
            "{}",
            answer.text()
        );
        assert_eq!(sandbox.read("twice").await, "1");
    });
}

#[test]
fn raw_upload_is_plain_or_compressed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let answer = sandbox.write_raw("raw.txt", &[], b"as it is").await;
        assert_eq!(answer.json()[0]["path"], "/home/user/raw.txt");
        assert_eq!(sandbox.read("raw.txt").await, "as it is");
        let large = "packed ".repeat(100_000);
        let packed = gzip(large.as_bytes());
        let answer = sandbox
            .write_raw("packed", &[("content-encoding", "gzip")], &packed)
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (kind, body) = form(&[("x", large.as_bytes())]);
        let headers = [
            ("content-type", kind.as_str()),
            ("content-encoding", "gzip"),
        ];
        let answer = sandbox
            .post("/files?path=packed-form", &headers, gzip(&body))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        for name in ["packed", "packed-form"] {
            assert_eq!(sandbox.read(name).await, large);
            let answer = sandbox.get(name, &[("accept-encoding", "gzip")]).await;
            assert_eq!(answer.headers["content-encoding"], "gzip");
            assert!(answer.body.len() < large.len() / 10);
            let mut unpacked = String::new();
            GzDecoder::new(&answer.body[..])
                .read_to_string(&mut unpacked)
                .unwrap();
            assert_eq!(unpacked, large);
        }
        let usual = sandbox
            .get("packed", &[("accept-encoding", "gzip, deflate, br, zstd")])
            .await;
        assert_eq!(
            (usual.headers.get("content-encoding"), usual.body.len()),
            (None, large.len())
        );
        for (headers, body, status) in [
            (vec![("content-encoding", "br")], &packed[..], 400),
            (vec![("content-encoding", "gzip")], b"not packed", 400),
            (
                vec![("content-encoding", "gzip")],
                &packed[..packed.len() / 2],
                400,
            ),
        ] {
            let answer = sandbox.write_raw("broken", &headers, body).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["code"].as_u64()),
                (status, Some(status.into()))
            );
        }
        assert_eq!(sandbox.get("broken", &[]).await.status, 404);
        let refused = sandbox
            .get("packed", &[("accept-encoding", "identity;q=0, br")])
            .await;
        assert_eq!(
            (refused.status.as_u16(), refused.json()["code"].as_u64()),
            (406, Some(406))
        );
    });
}

#[test]
fn range_of_a_file_is_read() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.write("digits", b"0123456789").await;
        for (range, status, body, told) in [
            ("bytes=2-4", 206, "234", "bytes 2-4/10"),
            ("bytes=-3", 206, "789", "bytes 7-9/10"),
            ("bytes=8-", 206, "89", "bytes 8-9/10"),
        ] {
            let answer = sandbox
                .get("digits", &[("range", range), ("accept-encoding", "gzip")])
                .await;
            assert_eq!(
                (answer.status.as_u16(), answer.text()),
                (status, body),
                "{range}"
            );
            assert_eq!(answer.headers["content-range"], told);
        }
        let beyond = sandbox.get("digits", &[("range", "bytes=10-")]).await;
        assert_eq!(
            (beyond.status.as_u16(), &beyond.headers["content-range"]),
            (416, &"bytes */10".parse().unwrap())
        );
        let modified = sandbox.get("digits", &[]).await.headers["last-modified"]
            .to_str()
            .unwrap()
            .to_owned();
        let known = sandbox
            .get("digits", &[("if-modified-since", &modified)])
            .await;
        assert_eq!((known.status.as_u16(), known.body.len()), (304, 0));
        let same = sandbox
            .get("digits", &[("range", "bytes=0-1"), ("if-range", &modified)])
            .await;
        assert_eq!(same.status, 206);
        let other = [
            ("range", "bytes=0-1"),
            ("if-range", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ];
        assert_eq!(sandbox.get("digits", &other).await.status, 200);
    });
}

#[test]
fn unreadable_path_is_reported_as_e2b_does() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.make_dir("folder").await;
        let told = |answer: &crate::client::Answer| {
            let body = answer.json();
            assert_eq!(body["code"].as_u64(), Some(answer.status.as_u16().into()));
            (
                answer.status.as_u16(),
                body["message"].as_str().unwrap().to_owned(),
            )
        };
        let missing = told(&sandbox.get("none", &[]).await);
        assert_eq!(
            missing,
            (404, "path '/home/user/none' does not exist".into())
        );
        let folder = told(&sandbox.get("folder", &[]).await);
        assert_eq!(
            folder,
            (400, "path '/home/user/folder' is a directory".into())
        );
        assert_eq!(told(&sandbox.get("~bob/x", &[]).await).0, 400);
        let unknown_user = told(&sandbox.http("GET", "/files?path=a&username=bob", "").await);
        assert_eq!(
            unknown_user,
            (
                401,
                "error looking up user 'bob': user: unknown user bob".into()
            )
        );
        let over = told(&sandbox.write_raw("folder", &[], b"x").await);
        assert_eq!(over, (400, "path is a directory: /home/user/folder".into()));
        sandbox.write("file", b"x").await;
        let below = told(&sandbox.write_raw("file/a/b", &[], b"x").await);
        assert_eq!(
            below,
            (
                500,
                "error ensuring directories: path is a file: /home/user/file".into()
            )
        );
        let method = told(&sandbox.http("DELETE", "/files?path=file", "").await);
        assert!(method.0 == 405 && method.1.contains("POST"), "{method:?}");
        let kind = told(
            &sandbox
                .post("/files?path=a", &[("content-type", "text/plain")], "x")
                .await,
        );
        assert_eq!(kind.0, 400);
        assert!(
            kind.1.starts_with("unsupported content type: text/plain"),
            "{}",
            kind.1
        );
        let raw = [("content-type", "application/octet-stream")];
        assert_eq!(told(&sandbox.post("/files", &raw, "x").await).0, 400);
        let form = [("content-type", "multipart/form-data")];
        assert_eq!(told(&sandbox.post("/files", &form, "x").await).0, 400);
        let torn = [("content-type", "multipart/form-data; boundary=b")];
        let half = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"half\"\r\n\r\nhalf of it";
        assert_eq!(told(&sandbox.post("/files", &torn, half).await).0, 400);
        assert_eq!(sandbox.get("half", &[]).await.status, 404);
        assert_eq!(
            sandbox.bash("ls -A | grep sandbar").await.text(),
            "",
            "no drafts are left"
        );
    });
}

#[test]
fn write_to_a_kernel_directory_is_refused() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.write("here", b"x").await;
        for path in [
            "/proc/x",
            "/sys/x",
            "/dev/shm/x",
            "/dev",
            "/home/../proc/1/comm",
        ] {
            let (kind, body) = form(&[(path, b"x")]);
            for answer in [
                sandbox.write_raw(path, &[], b"x").await,
                sandbox
                    .post("/files", &[("content-type", &kind)], body)
                    .await,
                sandbox
                    .call("filesystem.Filesystem/MakeDir", &json!({ "path": path }))
                    .await,
                sandbox
                    .call("filesystem.Filesystem/Remove", &json!({ "path": path }))
                    .await,
                sandbox
                    .call(
                        "filesystem.Filesystem/Move",
                        &json!({ "source": "here", "destination": path }),
                    )
                    .await,
                sandbox
                    .call(
                        "filesystem.Filesystem/Move",
                        &json!({ "source": path, "destination": "there" }),
                    )
                    .await,
            ] {
                assert_eq!(answer.status, 400, "{path}: {}", answer.text());
                let place = path
                    .trim_start_matches("/home/..")
                    .split('/')
                    .nth(1)
                    .unwrap();
                let told = format!(
                    "the files in `/{place}` come from the kernel of the sandbox (use another directory"
                );
                assert!(answer.text().contains(&told), "{path}: {}", answer.text());
            }
        }
        assert_eq!(sandbox.bash("ls; cat here").await.text(), "here\nx");
    });
}

#[test]
fn metadata_is_stored_with_the_file_content() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let headers = [
            ("x-metadata-author", "me"),
            ("X-Metadata-Purpose", "a test"),
        ];
        let answer = sandbox.write_raw("described", &headers, b"x").await;
        let metadata = json!({ "author": "me", "purpose": "a test" });
        assert_eq!(answer.json()[0]["metadata"], metadata);
        assert_eq!(sandbox.entry("described").await["metadata"], metadata);
        let listed = sandbox
            .call("filesystem.Filesystem/ListDir", &json!({ "path": "." }))
            .await
            .json();
        let entries = listed["entries"].as_array().unwrap();
        let listed = entries
            .iter()
            .find(|entry| entry["name"] == "described")
            .unwrap();
        assert_eq!(listed["metadata"], metadata);
        let moved = json!({ "source": "described", "destination": "moved" });
        let moved = sandbox
            .call("filesystem.Filesystem/Move", &moved)
            .await
            .json();
        assert_eq!(moved["entry"]["metadata"], metadata);
        let (kind, body) = form(&[("one", b"1"), ("two", b"2")]);
        let answer = sandbox
            .post(
                "/files",
                &[("content-type", &kind), ("x-metadata-set", "both")],
                body,
            )
            .await;
        assert_eq!(answer.json()[1]["metadata"], json!({ "set": "both" }));
        assert_eq!(
            sandbox.entry("two").await["metadata"],
            json!({ "set": "both" })
        );
        sandbox.write("moved", b"without").await;
        assert_eq!(sandbox.entry("moved").await.get("metadata"), None);
        let odd = sandbox
            .write_raw("odd", &[("x-metadata-k", &"v".repeat(5000))], b"x")
            .await;
        assert_eq!(odd.status, 400);
        let set = "python3 -c \"import os; os.setxattr('two', 'user.e2b.by', b'hand')\"";
        assert_eq!(sandbox.bash(set).await.code(), 0);
        assert_eq!(
            sandbox.entry("two").await["metadata"],
            json!({ "by": "hand", "set": "both" })
        );
    });
}

#[test]
fn upload_to_a_full_sandbox_changes_nothing() {
    World::run(async |world| {
        let mut spec = SessionSpec::new(BaseName::new("host").unwrap());
        spec.quota = Some(ByteCount::mib(8));
        let id = world.host.create_session(spec).await.unwrap().id;
        let handle = world
            .control(
                "POST",
                &format!("/sandboxes/{id}/connect"),
                Some(&json!({ "timeout": 60 })),
            )
            .await;
        assert!(handle.status.is_success(), "{}", handle.text());
        let sandbox = Sandbox::of(world.address, &handle.json());
        sandbox.write("kept", b"old").await;
        let answer = sandbox.write_raw("kept", &[], &vec![7; 32 << 20]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["code"].as_u64()),
            (507, Some(507))
        );
        assert!(
            answer.text().contains("not enough disk space available"),
            "{}",
            answer.text()
        );
        let (kind, body) = form(&[("large", &vec![7; 32 << 20])]);
        let answer = sandbox
            .post("/files", &[("content-type", &kind)], body)
            .await;
        assert_eq!(answer.status, 507);
        assert_eq!(sandbox.read("kept").await, "old");
        assert_eq!(sandbox.get("large", &[]).await.status, 404);
        sandbox.write("small", b"fits").await;
        assert_eq!(sandbox.read("small").await, "fits");
    });
}
