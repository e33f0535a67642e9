//! Tests that run again as an ordinary user.

use std::{fs, os::unix::process::CommandExt as _, path::Path, process::Command};

use crate::tree::{scratch, set_mode};

/// Uid and gid of [`again_as_user`].
pub const ORDINARY_USER: u32 = 12345;

/// Runs the test `name` again as an ordinary user, in a directory that belongs to that user. The
/// test program is copied, because an ordinary user cannot reach the directory it was built in.
pub fn again_as_user(name: &str, prepare: impl FnOnce(&Path)) {
    let scratch = scratch();
    prepare(scratch.path());
    set_mode(scratch.path(), 0o755);
    let (program, place) = (scratch.path().join("program"), scratch.path().join("place"));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::create_dir(&place).unwrap();
    std::os::unix::fs::chown(&place, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
    let output = Command::new(&program)
        .args(["--exact", name, "--nocapture"])
        .current_dir(&place)
        .uid(ORDINARY_USER)
        .gid(ORDINARY_USER)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "the test ran as the user"
    );
}
