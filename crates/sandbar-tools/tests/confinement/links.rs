use std::os::unix::fs::symlink;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;

use crate::volume::{SECRET, Volume};

pub(crate) fn links_and_dots_end_inside(volume: &Volume) {
    let secret = volume.secret();
    let secret = secret.to_str().unwrap();
    let climb = format!("{}{secret}", "../".repeat(30));
    symlink(secret, volume.path("absolute")).unwrap();
    symlink(&climb, volume.path("relative")).unwrap();
    symlink("/etc/passwd", volume.path("passwd")).unwrap();
    symlink("/", volume.path("root")).unwrap();
    symlink("loop", volume.path("loop")).unwrap();
    for path in [
        "absolute",
        "relative",
        "passwd",
        "loop",
        secret,
        &climb,
        &format!("root{secret}"),
        "root/../../etc/shadow",
    ] {
        for (tool, params) in [
            ("read_file", json!({"path": path})),
            ("grep", json!({"path": path, "pattern": "."})),
            ("list_dir", json!({"path": path})),
            (
                "edit_file",
                json!({"path": path, "old_string": SECRET, "new_string": "x"}),
            ),
        ] {
            let answer = volume.run(tool, params);
            assert!(answer.is_error, "{tool} {path}: {}", answer.content);
            assert!(!answer.content.contains(SECRET));
        }
    }
    // The session's own files are found through the same links.
    let own = volume.run("read_file", json!({"path": "root/etc/config"}));
    assert_eq!(own.content, "     1\tkey = value\n");
    volume.assert_untouched();
}

pub(crate) fn writing_through_a_link_ends_inside(volume: &Volume) {
    let secret = volume.secret();
    symlink(&secret, volume.path("dangling")).unwrap();
    symlink(secret.parent().unwrap(), volume.path("directory")).unwrap();
    for (path, create_dirs) in [
        ("dangling", true),
        ("directory/secret", true),
        ("../../../../../../tmp/x", true),
    ] {
        let params =
            json!({"path": path, "content": "from the session", "create_dirs": create_dirs});
        let answer = volume.run("write_file", params);
        assert!(!answer.is_error, "{path}: {}", answer.content);
    }
    let inside = volume.root().join(secret.strip_prefix("/").unwrap());
    assert_eq!(std::fs::read_to_string(inside).unwrap(), "from the session");
    assert_eq!(
        std::fs::read_to_string(volume.root().join("tmp/x")).unwrap(),
        "from the session"
    );
    symlink("/no/such/directory/file", volume.path("nowhere")).unwrap();
    let refused = volume.run(
        "write_file",
        json!({"path": "nowhere", "content": "x", "create_dirs": false}),
    );
    assert!(refused.is_error, "{}", refused.content);
    volume.assert_untouched();
}

pub(crate) fn searches_do_not_follow_links(volume: &Volume) {
    symlink(volume.secret().parent().unwrap(), volume.path("out")).unwrap();
    symlink("/etc", volume.path("etc")).unwrap();
    let found = volume.run("grep", json!({"pattern": "."}));
    assert_eq!(found.content, "[no matches]");
    let globbed = volume.run("glob", json!({"pattern": "out/**"}));
    assert_eq!(globbed.content, "[no files match]");
    // Named, a link is followed to where it leads inside.
    assert_eq!(
        volume.run("glob", json!({"pattern": "etc/*"})).content,
        "etc/config\n"
    );
    let listed = volume.run("list_dir", json!({"depth": 5}));
    assert_eq!(listed.content.lines().count(), 2, "{}", listed.content);
}

/// Magic links of the kernel in `/proc` lead out of the file system they are in.
pub(crate) fn links_of_the_kernel_are_refused(volume: &Volume) {
    let proc = volume.root().join("proc");
    std::fs::create_dir(&proc).unwrap();
    let _mounted = Proc::mount(&proc);
    let secret = volume.secret();
    let secret = secret.to_str().unwrap();
    symlink("/proc/self/root", volume.path("way-out")).unwrap();
    for path in [
        format!("/proc/self/root{secret}"),
        format!("/proc/1/root{secret}"),
        format!("/proc/thread-self/root{secret}"),
        format!("/proc/self/cwd/{}{secret}", "../".repeat(30)),
        format!("way-out{secret}"),
        "/proc/self/exe".to_owned(),
        "/proc/self/fd/0".to_owned(),
    ] {
        for (tool, params) in [
            ("read_file", json!({"path": path})),
            ("grep", json!({"path": path, "pattern": "."})),
            ("list_dir", json!({"path": path})),
        ] {
            let answer = volume.run(tool, params);
            assert!(answer.is_error, "{tool} {path}: {}", answer.content);
            assert!(!answer.content.contains(SECRET));
        }
        // At the end of a path such a link is read like any other, and what it says is a path
        // inside.
        volume.run("write_file", json!({"path": path, "content": "x"}));
    }
    volume.assert_untouched();
}

/// A `/proc` in the volume, in the mount namespace of the test only. It is taken away before
/// anything is removed.
struct Proc<'a>(&'a std::path::Path);

impl<'a> Proc<'a> {
    fn mount(place: &'a std::path::Path) -> Self {
        mount(
            "proc",
            place,
            "proc",
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC,
            None,
        )
        .unwrap();
        Self(place)
    }
}

impl Drop for Proc<'_> {
    fn drop(&mut self) {
        unmount(self.0, UnmountFlags::DETACH).unwrap();
    }
}
