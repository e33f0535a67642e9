//! Requests to zfs-fuse that are aborted because the process was stopped.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Fixture;

/// Enough to find the daemon in the wrong microsecond, as a rule, at full length.
fn rounds() -> u64 {
    sandbar_testing::scaled(2000, 200)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn process_stopped_in_a_request_does_not_block_others() {
    let fixture = Fixture::new();
    fixture.create("busy");
    fixture.create("other");
    let mut writer = Command::new("bash")
        .args(["-c", "while :; do : > file; done"])
        .current_dir(fixture.path("busy", ""))
        .spawn()
        .unwrap();
    for round in 0..rounds() {
        signal(&writer, Signal::STOP);
        // No more requests to the first file system.
        fixture.write("other", "file", &round.to_string());
        signal(&writer, Signal::CONT);
    }
    signal(&writer, Signal::KILL);
    assert_eq!(writer.wait().unwrap().signal(), Some(9));
    assert_eq!(
        fixture.read("other", "file"),
        Some((rounds() - 1).to_string())
    );
    fixture.snapshot("busy", "after");
}
