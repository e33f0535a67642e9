//! Watching directories.

use serde_json::{Value, json};

use crate::{
    client::{Frame, Frames, Sandbox},
    world::World,
};

impl Sandbox {
    async fn watch(&self, request: &Value) -> Frames {
        let mut frames = self
            .stream("filesystem.Filesystem/WatchDir", request, &[])
            .await;
        assert_eq!(frames.next().await, Frame::Message(json!({ "start": {} })));
        frames
    }

    async fn polled(&self, watcher: &str) -> Vec<Value> {
        let request = json!({ "watcherId": watcher });
        let answer = self
            .call("filesystem.Filesystem/GetWatcherEvents", &request)
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["events"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }
}

/// Returns the events up to `last`: type without prefix, and name.
async fn until(frames: &mut Frames, last: &str) -> Vec<String> {
    let mut told = Vec::new();
    while told.last().is_none_or(|event| event != last) {
        match frames.next().await {
            Frame::Message(message) => told.push(words(&message["filesystem"])),
            end => panic!("{end:?} after {told:?}"),
        }
    }
    told
}

fn words(event: &Value) -> String {
    let kind = event["type"]
        .as_str()
        .unwrap()
        .strip_prefix("EVENT_TYPE_")
        .unwrap();
    format!("{kind} {}", event["name"].as_str().unwrap())
}

#[test]
fn directory_changes_are_reported_as_e2b_events() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.bash("mkdir -p watched/inner other").await;
        let mut frames = sandbox.watch(&json!({ "path": "watched" })).await;
        sandbox.bash("cd watched; echo x > a; mv a b; mv b ../other/c; mv ../other/c d; chmod 600 d; rm d; touch inner/deep; mkdir end").await;
        let told = until(&mut frames, "CREATE end").await;
        let expected = [
            "CREATE a",
            "WRITE a",
            "RENAME a",
            "CREATE b",
            "RENAME b",
            "CREATE d",
            "CHMOD d",
            "REMOVE d",
            "CREATE end",
        ];
        assert_eq!(told, expected);
    });
}

#[test]
fn upload_is_reported_as_a_write_without_its_draft() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.make_dir("watched/inner").await;
        let mut frames = sandbox
            .watch(&json!({ "path": "watched", "recursive": true }))
            .await;
        sandbox.write("watched/new.txt", b"first").await;
        sandbox.write("watched/new.txt", b"second").await;
        sandbox.write("watched/inner/deep.txt", b"x").await;
        let told = until(&mut frames, "WRITE inner/deep.txt").await;
        let expected = [
            "CREATE new.txt",
            "CHMOD new.txt",
            "WRITE new.txt",
            "WRITE new.txt",
            "CREATE inner/deep.txt",
            "CHMOD inner/deep.txt",
            "WRITE inner/deep.txt",
        ];
        assert_eq!(told, expected);
        sandbox.make_dir("watched/later").await;
        until(&mut frames, "CREATE later").await;
        sandbox.write("watched/later/file", b"x").await;
        until(&mut frames, "WRITE later/file").await;
        sandbox
            .call(
                "filesystem.Filesystem/Remove",
                &json!({ "path": "watched/later" }),
            )
            .await;
        until(&mut frames, "REMOVE later").await;
    });
}

#[test]
fn events_include_entries_on_request() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.make_dir("watched").await;
        let mut frames = sandbox
            .watch(&json!({ "path": "watched", "includeEntry": true }))
            .await;
        sandbox.write("watched/file", b"12345").await;
        let Frame::Message(created) = frames.next().await else {
            panic!("it ended")
        };
        let entry = &created["filesystem"]["entry"];
        assert_eq!(
            (&entry["path"], &entry["size"]),
            (&json!("/home/user/watched/file"), &json!("5"))
        );
        assert_eq!(
            (&entry["owner"], &entry["type"]),
            (&json!("user"), &json!("FILE_TYPE_FILE"))
        );
        sandbox.bash("rm watched/file").await;
        loop {
            let Frame::Message(message) = frames.next().await else {
                panic!("it ended")
            };
            let event = &message["filesystem"];
            if words(event) == "REMOVE file" {
                assert_eq!(event.get("entry"), None);
                break;
            }
        }
    });
}

#[test]
fn watcher_collects_events_for_polling() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.make_dir("watched/inner").await;
        let request = json!({ "path": "watched", "recursive": true });
        let made = sandbox
            .call("filesystem.Filesystem/CreateWatcher", &request)
            .await
            .json();
        let watcher = made["watcherId"].as_str().unwrap().to_owned();
        assert_eq!(sandbox.polled(&watcher).await, Vec::<Value>::new());
        sandbox.write("watched/inner/a", b"x").await;
        sandbox.bash("rm watched/inner/a").await;
        let mut told = Vec::new();
        while told.last().is_none_or(|event| event != "REMOVE inner/a") {
            told.extend(sandbox.polled(&watcher).await.iter().map(words));
        }
        assert_eq!(
            told,
            [
                "CREATE inner/a",
                "CHMOD inner/a",
                "WRITE inner/a",
                "REMOVE inner/a"
            ]
        );
        let other = world.sandbox().await;
        let request = json!({ "watcherId": watcher });
        for call in ["GetWatcherEvents", "RemoveWatcher"] {
            let answer = other
                .call(&format!("filesystem.Filesystem/{call}"), &request)
                .await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["code"].as_str()),
                (404, Some("not_found")),
                "{call}"
            );
        }
        let removed = sandbox
            .call("filesystem.Filesystem/RemoveWatcher", &request)
            .await;
        assert_eq!(removed.status, 200);
        let gone = sandbox
            .call("filesystem.Filesystem/GetWatcherEvents", &request)
            .await;
        let message = format!("watcher with id {watcher} not found");
        assert_eq!(
            (gone.status.as_u16(), gone.json()["message"].as_str()),
            (404, Some(message.as_str()))
        );
    });
}

/// SDKs poll once, right after a call, and expect all its events.
#[test]
fn poll_returns_the_events_of_all_completed_calls() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.make_dir("watched").await;
        let request = json!({ "path": "watched", "recursive": true, "includeEntry": true });
        let made = sandbox
            .call("filesystem.Filesystem/CreateWatcher", &request)
            .await
            .json();
        let watcher = made["watcherId"].as_str().unwrap().to_owned();
        for round in 0..20 {
            let (directory, file) = (format!("d{round}"), format!("d{round}/file"));
            sandbox.make_dir(&format!("watched/{directory}")).await;
            sandbox.write(&format!("watched/{file}"), b"x").await;
            let told: Vec<String> = sandbox.polled(&watcher).await.iter().map(words).collect();
            assert_eq!(
                told.first(),
                Some(&format!("CREATE {directory}")),
                "{told:?}"
            );
            let of_file: Vec<&String> =
                told.iter().filter(|event| event.ends_with(&file)).collect();
            let expected = ["CREATE", "CHMOD", "WRITE"].map(|kind| format!("{kind} {file}"));
            assert_eq!(of_file, expected.iter().collect::<Vec<_>>());
            sandbox
                .call(
                    "filesystem.Filesystem/Remove",
                    &json!({ "path": format!("watched/{file}") }),
                )
                .await;
            let told: Vec<String> = sandbox.polled(&watcher).await.iter().map(words).collect();
            assert_eq!(told, [format!("REMOVE {file}")]);
        }
    });
}

#[test]
fn watching_a_file_is_refused() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.write("file", b"").await;
        for (path, code) in [("none", "not_found"), ("file", "invalid_argument")] {
            let request = json!({ "path": path });
            let (told, end) = sandbox
                .stream("filesystem.Filesystem/WatchDir", &request, &[])
                .await
                .all()
                .await;
            let Frame::End(end) = end else {
                panic!("{end:?}")
            };
            assert_eq!((told.len(), end["error"]["code"].as_str()), (0, Some(code)));
            let answer = sandbox
                .call("filesystem.Filesystem/CreateWatcher", &request)
                .await;
            assert_eq!(answer.json()["code"], code);
        }
    });
}

#[test]
fn watch_sends_keepalives_and_is_aborted_on_kill() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let headers = [("keepalive-ping-interval", "1")];
        let mut frames = sandbox
            .stream(
                "filesystem.Filesystem/WatchDir",
                &json!({ "path": "." }),
                &headers,
            )
            .await;
        assert_eq!(frames.next().await, Frame::Message(json!({ "start": {} })));
        assert_eq!(
            frames.next().await,
            Frame::Message(json!({ "keepalive": {} }))
        );
        world
            .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
            .await;
        loop {
            match frames.next().await {
                Frame::Message(_) => {}
                end => break assert_eq!(end, Frame::Torn),
            }
        }
    });
}
