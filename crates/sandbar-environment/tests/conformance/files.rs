//! Files as streams.

use std::path::Path;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sandbar_core::{EntryType, Error, ErrorCode};
use sandbar_environment::{ByteStream, WriteOptions};
use serde_json::json;

use crate::world::World;

const MEBIBYTE: usize = 1 << 20;
const PIECES: usize = 64;

/// Returns a unique chunk.
fn piece(number: usize) -> Bytes {
    (0..MEBIBYTE)
        .map(|place| u8::try_from((place * 7 + number * 13 + place / 251) % 256).unwrap())
        .collect()
}

pub(crate) async fn large_file_is_written_and_read_as_a_stream(world: &World) {
    let content: ByteStream = stream::iter((0..PIECES).map(piece)).map(Ok).boxed();
    let options = WriteOptions {
        mode: Some(0o640),
        create_dirs: true,
        owner: None,
    };
    let path = Path::new("deep/large");
    let size = (PIECES * MEBIBYTE) as u64;
    assert_eq!(
        world
            .environment
            .write_file(path, options, content)
            .await
            .unwrap(),
        size
    );
    assert_eq!(
        world.bash("stat -c '%s %a' deep/large").await,
        format!("{size} 640\n")
    );
    let file = world.environment.read_file(path).await.unwrap();
    assert_eq!(
        (file.stat.size.get(), file.stat.mode, file.stat.entry),
        (size, 0o640, EntryType::File)
    );
    // Compared by chunks, without the whole file in memory.
    let (mut content, mut number, mut left) = (file.content, 0, piece(0));
    while let Some(mut bytes) = content.try_next().await.unwrap() {
        while !bytes.is_empty() {
            let step = bytes.len().min(left.len());
            assert!(
                bytes.split_to(step) == left.split_to(step),
                "piece {number} differs"
            );
            if left.is_empty() {
                number += 1;
                left = piece(number);
            }
        }
    }
    assert_eq!(number, PIECES);
}

pub(crate) async fn entries_are_listed_by_path_and_depth(world: &World) {
    world
        .bash("mkdir -p b/c; echo hello > b/c/file; ln -s c/file b/link; touch a; chmod 600 a")
        .await;
    let list = async |depth| -> Vec<_> {
        let entries = world
            .environment
            .list_files(Path::new("."), depth)
            .await
            .unwrap();
        entries.try_collect::<Vec<_>>().await.unwrap()
    };
    let names = |entries: &[sandbar_environment::FileStat]| -> Vec<String> {
        entries
            .iter()
            .map(|entry| {
                entry
                    .path
                    .to_str()
                    .unwrap()
                    .replace("/workspace/./", "/workspace/")
            })
            .collect()
    };
    assert_eq!(names(&list(1).await), ["/workspace/a", "/workspace/b"]);
    let all = list(9).await;
    let expected = [
        "/workspace/a",
        "/workspace/b",
        "/workspace/b/c",
        "/workspace/b/c/file",
        "/workspace/b/link",
    ];
    assert_eq!(names(&all), expected);
    assert_eq!((all[0].mode, all[0].entry), (0o600, EntryType::File));
    assert_eq!((all[1].entry, all[3].size.get()), (EntryType::Directory, 6));
    assert_eq!(
        (all[4].entry, all[4].symlink_target.as_deref()),
        (EntryType::Symlink, Some(Path::new("c/file")))
    );
}

pub(crate) async fn failed_write_changes_nothing(world: &World) {
    world.write("note", "as it was").await;
    let torn = [
        Ok(Bytes::from("half")),
        Err(Error::internal("the source is torn").into()),
    ];
    let content = stream::iter(torn).boxed();
    world
        .environment
        .write_file(Path::new("note"), WriteOptions::default(), content)
        .await
        .unwrap_err();
    assert_eq!(world.read("note").await.as_deref(), Some("as it was"));
    crate::world::eventually("no draft is left", async || {
        world.listing().await == ["/workspace/note"]
    })
    .await;
}

pub(crate) async fn files_and_tools_see_the_same_paths(world: &World) {
    world.write("a.txt", "from a stream").await;
    assert_eq!(world.bash("cat a.txt").await, "from a stream");
    assert_eq!(
        world
            .bash("cat /workspace/a.txt; cd /; cat workspace/a.txt")
            .await,
        "from a streamfrom a stream"
    );
    world
        .done(
            "write_file",
            json!({"path": "/tmp/b.txt", "content": "from a tool"}),
        )
        .await;
    assert_eq!(
        world
            .bash("cat /tmp/b.txt; echo from a command > /tmp/c.txt")
            .await,
        "from a tool"
    );
    assert_eq!(
        world.read("../tmp/c.txt").await.as_deref(),
        Some("from a command\n")
    );
    // A link out of the workspace resolves to the same path for both.
    world.bash("ln -s /tmp/c.txt link").await;
    assert_eq!(
        world.read("link").await.as_deref(),
        Some("from a command\n")
    );
}

pub(crate) async fn missing_file_is_reported_as_not_found(world: &World) {
    let error = world
        .environment
        .read_file(Path::new("missing"))
        .await
        .unwrap_err();
    let cause = error.cause().unwrap();
    assert_eq!(
        (cause.code(), cause.field()),
        (ErrorCode::FileNotFound, Some("path"))
    );
    let error = world
        .environment
        .list_files(Path::new("missing"), 1)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.cause().unwrap().code(), ErrorCode::FileNotFound);
    let error = world
        .environment
        .read_file(Path::new(""))
        .await
        .unwrap_err();
    assert_eq!(error.cause().unwrap().code(), ErrorCode::InvalidArgument);
}
