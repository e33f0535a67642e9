use std::{
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use crate::volume::{SECRET, Volume};

/// Rounds of every race: enough that an unconfined lookup would be caught.
const ROUNDS: usize = 300;

/// Exchanges two names until told to stop.
fn swap(volume: &Volume, one: &str, other: &str, done: &AtomicBool) {
    let (one, other) = (volume.path(one), volume.path(other));
    while !done.load(Ordering::Relaxed) {
        // zfs-fuse cannot exchange; two renames through a third name do as well.
        if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_err() {
            let between = one.with_extension("between");
            std::fs::rename(&one, &between).unwrap();
            std::fs::rename(&other, &one).unwrap();
            std::fs::rename(&between, &other).unwrap();
        }
    }
}

fn during_swaps(volume: &Volume, one: &str, other: &str, work: impl Fn(usize)) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| swap(volume, one, other, &done));
        let stop = StopWhenDropped(&done);
        (0..ROUNDS).for_each(work);
        drop(stop);
    });
}

/// Also when the work panics: the other thread has to end.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn a_link_that_comes_and_goes_leads_nowhere(volume: &Volume) {
    let outside = volume.secret().parent().unwrap().to_owned();
    std::fs::create_dir(volume.path("d")).unwrap();
    std::fs::write(volume.path("d/secret"), "inside").unwrap();
    symlink(&outside, volume.path("l")).unwrap();
    during_swaps(volume, "d", "l", |round| {
        let read = volume.run("read_file", json!({"path": "d/secret"}));
        assert!(!read.content.contains(SECRET), "{}", read.content);
        let name = format!("d/made-{round}");
        volume.run(
            "write_file",
            json!({"path": name, "content": "x", "create_dirs": false}),
        );
        volume.run(
            "write_file",
            json!({"path": "d/secret", "content": "inside", "create_dirs": false}),
        );
        volume.run(
            "edit_file",
            json!({"path": "d/secret", "old_string": SECRET, "new_string": "gone"}),
        );
    });
    volume.assert_untouched();
    let outside: Vec<String> = std::fs::read_dir(outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("made-") || name.starts_with(".sandbar-"))
        .collect();
    assert_eq!(outside, Vec::<String>::new());
}

pub(crate) fn a_directory_swapped_during_a_search_leads_nowhere(volume: &Volume) {
    let outside = volume.secret().parent().unwrap().to_owned();
    std::fs::create_dir_all(volume.path("top/d/deep")).unwrap();
    std::fs::write(volume.path("top/d/deep/f"), "inside").unwrap();
    symlink(&outside, volume.path("top/l")).unwrap();
    during_swaps(volume, "top/d", "top/l", |_| {
        for (tool, params) in [
            (
                "grep",
                json!({"path": "top", "pattern": "secret of the host"}),
            ),
            (
                "grep",
                json!({"path": "top/d", "pattern": "secret of the host"}),
            ),
            ("glob", json!({"path": "top", "pattern": "**/secret"})),
            ("list_dir", json!({"path": "top", "depth": 9})),
        ] {
            let answer = volume.run(tool, params);
            assert!(
                !answer.content.contains(SECRET),
                "{tool}: {}",
                answer.content
            );
            assert!(
                !answer.content.lines().any(|line| line.ends_with("/secret")),
                "{tool}: {}",
                answer.content
            );
        }
    });
    volume.assert_untouched();
}
