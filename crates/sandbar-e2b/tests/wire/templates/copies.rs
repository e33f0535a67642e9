//! `COPY` steps.

use std::{io::Write as _, path::Path};

use flate2::{Compression, write::GzEncoder};
use sandbar_core::SessionId;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::{
    support::{Wanted, built, content, finished, requested, run, started, step},
    uploads::{link, put},
};
use crate::world::World;

/// Builds an archive as SDKs do: names relative to the template, gzipped.
fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in entries {
        let mut header = Header::new_gnu();
        // Uid and gid of the packing machine, which must be ignored.
        header.set_uid(4711);
        header.set_gid(4711);
        header.set_mode(0o640);
        header.set_size(0);
        if let Some(target) = content.strip_prefix("-> ") {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, name, target).unwrap();
        } else if name.ends_with('/') {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o750);
            builder
                .append_data(&mut header, name, std::io::empty())
                .unwrap();
        } else {
            header.set_size(content.len() as u64);
            builder
                .append_data(&mut header, name, content.as_bytes())
                .unwrap();
        }
    }
    let mut packer = builder.into_inner().unwrap();
    packer.flush().unwrap();
    packer.finish().unwrap()
}

fn copy(args: &[&str], hash: &str) -> Value {
    json!({ "type": "COPY", "args": args, "filesHash": hash, "force": false })
}

/// Uploads an archive under a hash.
async fn sent(world: &World, hash: &str, entries: &[(&str, &str)]) {
    let (template, _) = requested(world, &Wanted::new("sender")).await;
    let (_, url) = link(world, &template, hash).await;
    assert_eq!(put(world, &url, archive(entries)).await.status, 200);
}

#[test]
fn copy_sets_owner_and_mode() {
    World::run(async |world| {
        let (file, folder) = ("1".repeat(64), "2".repeat(64));
        sent(world, &file, &[("app.py", "print(1)\n")]).await;
        sent(
            world,
            &folder,
            &[
                ("src/", ""),
                ("src/a.txt", "a"),
                ("src/sub/", ""),
                ("src/sub/b.txt", "b"),
                ("src/link", "-> a.txt"),
            ],
        )
        .await;
        let steps = json!([
            copy(&["app.py", "main.py", "", ""], &file),
            copy(&["app.py", "/opt/tools/", "root", "0755"], &file),
            copy(&["src", "/srv/data", "user:root", "0700"], &folder),
            copy(&["src/*.txt", "deep/er", "", ""], &folder),
        ]);
        let status = built(
            world,
            &Wanted::new("copied"),
            json!({ "fromTemplate": "base", "steps": steps }),
        )
        .await;
        assert_eq!(status["status"], "ready", "{status}");
        let sandbox = world.sandbox_with(json!({ "templateID": "copied" })).await;
        assert_eq!(
            content(world, &sandbox.id, "/home/user/main.py").await,
            "print(1)\n"
        );
        assert_eq!(
            content(world, &sandbox.id, "/srv/data/sub/b.txt").await,
            "b"
        );
        assert_eq!(content(world, &sandbox.id, "/srv/data/link").await, "a");
        assert_eq!(
            content(world, &sandbox.id, "/home/user/deep/er/a.txt").await,
            "a"
        );
        let session = SessionId::new(sandbox.id.clone()).unwrap();
        let stat = async |path: &str| {
            let stat = world.host.stat(&session, Path::new(path)).await.unwrap();
            (stat.uid, stat.gid, stat.mode)
        };
        assert_eq!(stat("/home/user/main.py").await, (1000, 1000, 0o640));
        assert_eq!(stat("/opt/tools/app.py").await, (0, 0, 0o755));
        assert_eq!(stat("/srv/data/a.txt").await, (1000, 0, 0o700));
        assert_eq!(stat("/srv/data/sub").await, (1000, 0, 0o700));
        assert_eq!(
            run(world, &sandbox.id, "ls /tmp").await,
            "",
            "nothing is left of copying"
        );
    });
}

#[test]
fn copy_into_an_existing_directory_keeps_its_owner() {
    World::run(async |world| {
        let (tree, linked) = ("6".repeat(64), "7".repeat(64));
        // As packed for a pattern of files: some directories are only implied.
        let entries = [
            ("top/etc/", ""),
            ("top/etc/mine", "m"),
            ("top/alias/new", "n"),
            ("top/made/deep/file", "f"),
        ];
        sent(world, &tree, &entries).await;
        // SDKs that follow links pack their targets too.
        let entries = [
            ("top/real/a", "a"),
            ("top/way", "-> real"),
            ("top/way/a", "a"),
            ("top/lost", "-> nowhere"),
        ];
        sent(world, &linked, &entries).await;
        let steps = json!([
            step(
                "RUN",
                &[
                    "mkdir -p /srv/target && ln -s /srv/target /alias && stat -c %u:%a /etc > /srv/before",
                    "root"
                ]
            ),
            copy(&["top", "/", "user", ""], &tree),
            copy(&["top", "/alias/links", "user", ""], &linked),
            step("RUN", &["touch /made/deep/more"]),
        ]);
        let status = built(
            world,
            &Wanted::new("merged"),
            json!({ "fromTemplate": "base", "steps": steps }),
        )
        .await;
        assert_eq!(status["status"], "ready", "{status}");
        let sandbox = world.sandbox_with(json!({ "templateID": "merged" })).await;
        assert_eq!(content(world, &sandbox.id, "/etc/mine").await, "m");
        assert_eq!(content(world, &sandbox.id, "/srv/target/new").await, "n");
        assert_eq!(
            content(world, &sandbox.id, "/srv/target/links/way/a").await,
            "a"
        );
        let before = content(world, &sandbox.id, "/srv/before").await;
        assert_eq!(run(world, &sandbox.id, "stat -c %u:%a /etc").await, before);
        let said = run(
            world,
            &sandbox.id,
            "readlink /alias /alias/links/way /alias/links/lost; stat -c %u /made/deep",
        )
        .await;
        assert_eq!(said, "/srv/target\nreal\nnowhere\n1000\n");
    });
}

#[test]
fn variables_in_a_copy_target_are_expanded() {
    World::run(async |world| {
        let file = "8".repeat(64);
        sent(world, &file, &[("app.py", "print(1)\n")]).await;
        let steps = json!([
            step("ENV", &["APP", "/srv/app", "NAME", "main"]),
            copy(&["app.py", "$APP/${NAME}.py", "", ""], &file),
            copy(&["app.py", "${OTHER:-/srv/other}/", "", ""], &file),
            copy(&["app.py", "$HOME/", "root", ""], &file),
        ]);
        let status = built(
            world,
            &Wanted::new("named"),
            json!({ "fromTemplate": "base", "steps": steps }),
        )
        .await;
        assert_eq!(status["status"], "ready", "{status}");
        let sandbox = world.sandbox_with(json!({ "templateID": "named" })).await;
        for path in ["/srv/app/main.py", "/srv/other/app.py", "/root/app.py"] {
            assert_eq!(content(world, &sandbox.id, path).await, "print(1)\n");
        }
        assert_eq!(
            run(world, &sandbox.id, "ls -A /home/user | grep '[$]'").await,
            ""
        );
    });
}

#[test]
fn link_to_a_directory_is_copied_with_its_contents() {
    World::run(async |world| {
        let (whole, part) = ("9".repeat(64), "a".repeat(64));
        // SDKs follow the given link and pack it as well.
        let entries = [
            ("way", "-> real"),
            ("way/a", "a"),
            ("way/sub/", ""),
            ("way/sub/b", "b"),
            ("way/sub/c/d", "d"),
        ];
        sent(world, &whole, &entries).await;
        sent(world, &part, &entries[2..]).await;
        let steps = json!([
            copy(&["way", "/srv/all", "", ""], &whole),
            copy(&["way/sub", "/srv/part", "", ""], &part)
        ]);
        let status = built(
            world,
            &Wanted::new("behind"),
            json!({ "fromTemplate": "base", "steps": steps }),
        )
        .await;
        assert_eq!(status["status"], "ready", "{status}");
        let sandbox = world.sandbox_with(json!({ "templateID": "behind" })).await;
        let found = run(
            world,
            &sandbox.id,
            "cd /srv && find . -type f | sort | xargs grep -H .",
        )
        .await;
        assert_eq!(
            found,
            "./all/a:a\n./all/sub/b:b\n./all/sub/c/d:d\n./part/b:b\n./part/c/d:d\n"
        );
    });
}

#[test]
fn invalid_or_escaping_archive_fails_its_step() {
    World::run(async |world| {
        let (noise, missing, hostile) = ("3".repeat(64), "4".repeat(64), "5".repeat(64));
        let (template, _) = requested(world, &Wanted::new("sender")).await;
        let (_, url) = link(world, &template, &noise).await;
        assert_eq!(put(world, &url, vec![7; 5000]).await.status, 200);
        let (_, url) = link(world, &template, &hostile).await;
        assert_eq!(put(world, &url, leading_out()).await.status, 200);
        for (hash, text) in [
            (noise, "not a tar archive"),
            (missing, "were not uploaded"),
            (hostile, "path outside"),
        ] {
            let (template, build) = requested(world, &Wanted::new("hostile")).await;
            let plan = json!({ "fromTemplate": "base", "steps": [step("RUN", &["true"]), copy(&["x", "/x"], &hash)] });
            started(world, &template, &build, &plan).await;
            let status = finished(world, &template, &build).await;
            assert_eq!(status["reason"]["step"], "2", "{status}");
            assert!(
                status["reason"]["message"].as_str().unwrap().contains(text),
                "{status}"
            );
        }
    });
}

/// Builds an archive with a path outside of it.
fn leading_out() -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(1);
    header.as_mut_bytes()[..10].copy_from_slice(b"x/../../e\0");
    header.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&header, &b"x"[..]).unwrap();
    builder.into_inner().unwrap()
}
