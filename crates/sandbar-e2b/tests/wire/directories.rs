//! Entries and directories: stat, list, create, move and remove.

use serde_json::{Value, json};

use crate::{
    client::{Answer, Sandbox},
    world::World,
};

impl Sandbox {
    async fn files(&self, call: &str, body: Value) -> Answer {
        self.call(&format!("filesystem.Filesystem/{call}"), &body)
            .await
    }

    pub(crate) async fn entry(&self, path: &str) -> Value {
        let answer = self.files("Stat", json!({ "path": path })).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()["entry"].clone()
    }

    pub(crate) async fn make_dir(&self, path: &str) -> Answer {
        self.files("MakeDir", json!({ "path": path })).await
    }
}

/// Status, code and message.
fn refusal(answer: &Answer) -> (u16, String, String) {
    let body = answer.json();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (answer.status.as_u16(), text("code"), text("message"))
}

#[test]
fn directory_is_created_once_and_owned_by_the_user() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let made = sandbox.make_dir("one/two").await;
        assert_eq!(made.status, 200, "{}", made.text());
        let entry = made.json()["entry"].clone();
        assert_eq!(
            (&entry["name"], &entry["path"]),
            (&json!("two"), &json!("/home/user/one/two"))
        );
        assert_eq!(entry["type"], "FILE_TYPE_DIRECTORY");
        let again = refusal(&sandbox.make_dir("~/one/two").await);
        let message = "directory already exists: /home/user/one/two".to_owned();
        assert_eq!(again, (409, "already_exists".into(), message));
        sandbox.write("file", b"").await;
        let (status, code, message) = refusal(&sandbox.make_dir("file").await);
        assert_eq!((status, code.as_str()), (400, "invalid_argument"));
        assert_eq!(
            message,
            "path already exists but it is not a directory: /home/user/file"
        );
        let owners = sandbox
            .as_user("root")
            .bash("stat -c '%U:%G %a' /home/user/one /home/user/one/two")
            .await;
        assert_eq!(owners.text(), "user:user 755\nuser:user 755\n");
        sandbox.as_user("root").make_dir("/opt/mine").await;
        assert_eq!(sandbox.bash("stat -c %U /opt/mine").await.text(), "root\n");
    });
}

#[test]
fn entry_is_described_as_e2b_does() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.write("about.txt", b"12345").await;
        let entry = sandbox.entry("about.txt").await;
        let modified = entry["modifiedTime"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap();
        assert!(
            jiff::Timestamp::now()
                .duration_since(modified)
                .as_secs()
                .abs()
                < 120
        );
        let mut known = entry.clone();
        known.as_object_mut().unwrap().remove("modifiedTime");
        let expected = json!({
            "name": "about.txt", "type": "FILE_TYPE_FILE", "path": "/home/user/about.txt", "size": "5", "mode": 420,
            "permissions": "-rw-r--r--", "owner": "user", "group": "user",
        });
        assert_eq!(known, expected);
        sandbox
            .bash("mkdir d; chmod 1777 d; ln -s d link; ln -s nowhere broken; ln -s link again")
            .await;
        sandbox
            .as_user("root")
            .bash("chown 4242:4343 /home/user/about.txt")
            .await;
        let directory = sandbox.entry("d").await;
        assert_eq!(
            (&directory["mode"], &directory["permissions"]),
            (&json!(511), &json!("dtrwxrwxrwx"))
        );
        let size: u64 = directory["size"].as_str().unwrap().parse().unwrap();
        assert!(
            size >= 4096,
            "an empty directory has a size as well: {size}"
        );
        for link in ["link", "again"] {
            let entry = sandbox.entry(link).await;
            assert_eq!(entry["type"], "FILE_TYPE_DIRECTORY", "{entry}");
            assert_eq!(
                (&entry["symlinkTarget"], &entry["isSymlink"]),
                (&json!("/home/user/d"), &json!(true))
            );
            assert_eq!(
                (&entry["permissions"], &entry["mode"]),
                (&json!("Lrwxrwxrwx"), &json!(511))
            );
        }
        let broken = sandbox.entry("broken").await;
        assert_eq!(
            (broken.get("type"), &broken["symlinkTarget"]),
            (None, &json!("/home/user/broken"))
        );
        let stranger = sandbox.entry("about.txt").await;
        assert_eq!(
            (&stranger["owner"], &stranger["group"]),
            (&json!("4242"), &json!("4343"))
        );
        let root = sandbox.entry("/").await;
        assert_eq!((&root["name"], &root["path"]), (&json!("/"), &json!("/")));
        let (status, code, message) =
            refusal(&sandbox.files("Stat", json!({ "path": "none" })).await);
        assert_eq!((status, code.as_str()), (404, "not_found"));
        assert!(message.starts_with("file not found: "), "{message}");
    });
}

#[test]
fn directory_is_listed_to_a_depth_without_following_links() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox
            .bash("mkdir -p dir/a/b; touch dir/a/b/c dir/z; ln -s / dir/root; ln -s dir way")
            .await;
        let list = async |path: &str, depth: Option<u32>| -> Vec<String> {
            let mut request = json!({ "path": path });
            if let Some(depth) = depth {
                request["depth"] = json!(depth);
            }
            let answer = sandbox.files("ListDir", request).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let entries = answer.json()["entries"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            entries
                .iter()
                .map(|entry| entry["path"].as_str().unwrap().to_owned())
                .collect()
        };
        let flat = [
            "/home/user/dir/a",
            "/home/user/dir/root",
            "/home/user/dir/z",
        ];
        assert_eq!(list("dir", None).await, flat);
        assert_eq!(list("~/dir/../dir/", Some(1)).await, flat);
        assert_eq!(list("dir", Some(2)).await[1], "/home/user/dir/a/b");
        assert_eq!(list("dir", Some(9)).await.len(), 5);
        assert_eq!(list("way", None).await[0], "/home/user/way/a");
        let nothing = refusal(&sandbox.files("ListDir", json!({ "path": "none" })).await);
        assert_eq!((nothing.0, nothing.1.as_str()), (404, "not_found"));
        assert!(
            nothing.2.starts_with("directory not found: "),
            "{}",
            nothing.2
        );
        let file = refusal(&sandbox.files("ListDir", json!({ "path": "dir/z" })).await);
        let words = "path is not a directory: /home/user/dir/z".to_owned();
        assert_eq!(file, (400, "invalid_argument".into(), words));
    });
}

#[test]
fn entries_are_moved_and_removed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        sandbox.write("old.txt", b"content").await;
        let moved = sandbox
            .files(
                "Move",
                json!({ "source": "old.txt", "destination": "new/place.txt" }),
            )
            .await;
        assert_eq!(moved.json()["entry"]["path"], "/home/user/new/place.txt");
        assert_eq!(sandbox.read("new/place.txt").await, "content");
        assert_eq!(sandbox.bash("stat -c %U new").await.text(), "user\n");
        let nothing = refusal(
            &sandbox
                .files("Move", json!({ "source": "none", "destination": "other" }))
                .await,
        );
        assert_eq!((nothing.0, nothing.1.as_str()), (404, "not_found"));
        assert!(
            nothing.2.starts_with("source file not found: "),
            "{}",
            nothing.2
        );
        // A directory of the base can be moved, too.
        let skeleton = json!({ "source": "/etc/skel", "destination": "skel" });
        let answer = sandbox.files("Move", skeleton).await;
        assert!(
            [200, 404].contains(&answer.status.as_u16()),
            "{}",
            answer.text()
        );
        for path in ["new", "new", "never/there"] {
            let answer = sandbox.files("Remove", json!({ "path": path })).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()),
                (200, json!({})),
                "{path}"
            );
        }
        let gone = sandbox.files("Stat", json!({ "path": "new" })).await;
        assert_eq!(gone.status, 404);
    });
}

#[test]
fn paths_are_resolved_for_the_user_of_the_call() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        assert_eq!(sandbox.as_user("root").entry("").await["path"], "/root");
        assert_eq!(sandbox.entry("").await["path"], "/home/user");
        let other = refusal(&sandbox.files("Stat", json!({ "path": "~bob/x" })).await);
        assert_eq!((other.0, other.1.as_str()), (400, "invalid_argument"));
        let unknown_user = refusal(
            &sandbox
                .as_user("bob")
                .files("Stat", json!({ "path": "/" }))
                .await,
        );
        assert_eq!(
            unknown_user,
            (
                401,
                "unauthenticated".into(),
                "invalid username: 'bob'".into()
            )
        );
    });
}
