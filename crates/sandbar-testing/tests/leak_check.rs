//! `scripts/in-test-run.sh` finds what a command leaves behind, and only that.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs a shell script as a test run of its own. One look is enough for things that do not go away
/// by themselves.
fn test_run(script: &str) -> Output {
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/in-test-run.sh");
    Command::new(runner)
        .args(["bash", "-euc", script])
        .env("SANDBAR_LEAK_ATTEMPTS", "1")
        .output()
        .unwrap()
}

/// Runs a script that leaves something behind; `found` is part of the line that names it.
fn assert_found(script: &str, found: &str) {
    let output = test_run(script);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(found)).collect();
    assert_eq!(lines.len(), 1, "{said}");
}

/// Runs a script that leaves something behind outside of its run.
fn assert_ignored(script: &str) {
    let output = test_run(script);
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

#[test]
fn tidy_run_passes_and_status_is_that_of_the_command() {
    assert_ignored("true");
    assert_eq!(test_run("exit 7").status.code(), Some(7));
}

#[test]
fn mount_left_behind_is_found() {
    assert_found("mount -t tmpfs left /mnt", "mount /mnt tmpfs left");
}

#[test]
fn mount_of_another_namespace_is_ignored() {
    assert_ignored("unshare --mount --propagation private mount -t tmpfs foreign /mnt");
}

#[test]
fn loop_device_left_behind_is_found() {
    assert_found(
        r#"
        trap 'rm -f "$TMPDIR/image"' EXIT
        truncate --size 1M "$TMPDIR/image"
        losetup --find "$TMPDIR/image"
        "#,
        "/image (deleted)",
    );
}

#[test]
fn loop_device_of_another_run_is_ignored() {
    let scratch = sandbar_testing::tree::scratch();
    let image = scratch.path().join("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    let device = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(&image)
        .output()
        .unwrap();
    let device = String::from_utf8(device.stdout).unwrap();
    let outcome = std::panic::catch_unwind(|| assert_ignored("true"));
    assert!(
        Command::new("losetup")
            .args(["--detach", device.trim()])
            .status()
            .unwrap()
            .success()
    );
    outcome.unwrap();
}

#[test]
fn pool_left_behind_is_found() {
    // A program of this name answers for a daemon that would outlive the run.
    assert_found(
        r#"
        mkdir "$TMPDIR/bin"
        printf '#!/bin/sh\necho foreign; echo sandbartest%s-1\n' "$SANDBAR_TEST_RUN" >"$TMPDIR/bin/zpool"
        chmod 755 "$TMPDIR/bin/zpool"
        mount --bind "$TMPDIR/bin/zpool" "$(command -v zpool || echo /usr/sbin/zpool)"
        "#,
        "pool sandbartest",
    );
}

#[test]
fn cgroup_left_behind_is_found() {
    // In one hierarchy, wherever this machine has it mounted.
    assert_found(
        r#"
        hierarchy=$(awk '$3 ~ /^cgroup/ { print $2 }' /proc/self/mounts | tail -n 1)
        mkdir "$hierarchy/sandbar-left"
        "#,
        "/sandbar-left",
    );
}

#[test]
fn process_left_behind_is_found() {
    assert_found(
        "setsid sleep 4711.1 </dev/null >/dev/null 2>&1 &",
        "sleep 4711.1",
    );
}

#[test]
fn process_without_environment_is_found_by_its_mounts() {
    let script = r#"
        mkdir "$TMPDIR/place"
        env --ignore-environment PATH="$PATH" setsid unshare --mount --propagation private \
            sh -c 'mount -t tmpfs inside "$1"; exec sleep 4711.2' sh "$TMPDIR/place" \
            </dev/null >/dev/null 2>&1 &
        until tr '\0' ' ' </proc/$!/cmdline | grep -q '^sleep'; do sleep 0.01; done
    "#;
    assert_found(script, "sleep 4711.2");
}

#[test]
fn process_of_another_run_is_ignored() {
    let mut foreign = Command::new("sleep")
        .arg("4711.3")
        .env("SANDBAR_TEST_RUN", "foreign")
        .spawn()
        .unwrap();
    let outcome = std::panic::catch_unwind(|| assert_ignored("true"));
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    outcome.unwrap();
}

#[test]
fn network_interface_left_behind_is_found() {
    assert_found(
        "ip link add name left type veth peer name other",
        "network left",
    );
}

#[test]
fn network_interface_of_another_namespace_is_ignored() {
    assert_ignored("unshare --net ip link add name left type veth peer name other");
}

#[test]
fn directory_left_behind_is_found() {
    assert_found("mkdir \"$TMPDIR/left\"", "/left");
}

#[test]
fn directory_of_another_run_is_ignored() {
    let _foreign = sandbar_testing::tree::scratch();
    assert_ignored("true");
}
