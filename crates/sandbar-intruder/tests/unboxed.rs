//! Shows that the attempts can succeed: they do outside of a box.
//!
//! They run as root in mount, pid and UTS namespaces that end with the test. Only
//! attempts run that reach objects of the test itself or stop at a permission check: they touch no
//! disk, clock, cgroup or kernel setting, and no process outside the test.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::{
    collections::BTreeMap,
    fs,
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Output},
};

use sandbar_testing::{Bait, Intruder, tree};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sandbar-intruder");

/// Attempts that report an escape when nothing holds them. The rest need a kernel, a terminal or a
/// right that not every machine has, or would touch what is not the test's.
const ESCAPES: &[&str] = &[
    "capabilities-beyond",
    "set-user-id-beyond",
    "set-user-id-own",
    "user-beyond",
    "owner-beyond",
    "path-plain",
    "path-dot-dot",
    "path-proc-self-root",
    "path-proc-1-root",
    "path-proc-1-cwd",
    "path-proc-host-pid-root",
    "path-proc-every-root",
    "path-proc-every-descriptor",
    "path-inherited-directory",
    "path-symbolic-link",
    "chroot-break-out",
    "chroot-break-out-in-user-namespace",
    "pivot-root",
    "open-by-handle",
    "mount-tmpfs",
    "mount-proc",
    "mount-sysfs",
    "mount-devpts",
    "mount-mqueue",
    "mount-overlay",
    "mount-bind",
    "mount-move",
    "mount-propagation",
    "mount-open-tree",
    "mount-open-tree-of-process-1",
    "mount-fsopen",
    "mount-move-mount",
    "mount-setattr",
    "mount-in-user-namespace",
    "node-null",
    "node-whiteout",
    "device-fuse",
    "host-pid-visible",
    "host-pid-signal",
    "host-pid-signal-thread",
    "host-pid-handle",
    "host-pid-trace",
    "host-pid-read-memory",
    "host-pid-limits",
    "host-pid-priority",
    "host-pid-environment",
    "process-1-environment",
    "process-1-trace",
    "process-1-read-memory",
    "process-1-write-memory",
    "process-1-memory-file",
    "process-1-maps",
    "process-1-vectors",
    "process-1-descriptors",
    "process-1-take-descriptor",
    "process-1-overwrite-program",
    "every-process-overwrite-program",
    "process-1-compare",
    "process-1-move-pages",
    "process-1-migrate-pages",
    "process-1-advise",
    "process-1-robust-list",
    "limit-locked-memory",
    "limit-priority",
    "limit-disk-priority",
    "limit-terminals",
    "environment-secret",
    "environment-variables",
    "descriptors-inherited",
    "descriptors-sockets",
    "descriptors-directories",
    "descriptors-files",
    "session-of-the-host",
    "ipc-shared-memory",
    "ipc-shared-memory-list",
    "ipc-message-queue",
    "ipc-shared-file",
    "key-add",
    "key-read",
    "key-request",
    "key-search",
    "key-session",
    "key-list",
    "socket-abstract",
    "socket-control",
    "socket-path",
    "socket-take-descriptor",
    "socket-datagram",
    "socket-loopback",
    "socket-listed",
    "socket-port-listed",
    "network-raw",
    "network-packet",
    "network-routes",
    "network-interface-call",
    "unshare-user",
    "unshare-mount",
    "unshare-pid",
    "unshare-network",
    "unshare-ipc",
    "unshare-names",
    "unshare-cgroup",
    "unshare-time",
    "clone-user",
    "clone-mount",
    "clone-pid",
    "clone-network",
    "clone-ipc",
    "clone-names",
    "clone-cgroup",
    "clone3-user",
    "clone3-mount",
    "clone3-pid",
    "clone3-network",
    "clone3-ipc",
    "clone3-names",
    "clone3-cgroup",
    "clone3-time",
    "user-namespace-map",
    "enter-mount",
    "enter-pid",
    "enter-network",
    "enter-ipc",
    "enter-names",
    "enter-cgroup",
    "enter-host",
    "capabilities",
    "capabilities-bounding",
    "no-new-privileges",
    "seccomp-filter",
    "capabilities-raise",
    "capabilities-ambient",
    "secure-bits",
    "user-change",
    "groups-change",
    "owner-change",
    "set-user-id",
    "file-capabilities",
    "file-capabilities-namespaced",
    "attribute-trusted",
    "attribute-overlay-opaque",
    "attribute-overlay-redirect",
    "attribute-overlay-metacopy",
    "attribute-security",
    "file-immutable",
    "file-lease",
    "watch-mounts",
    "bpf-map",
    "bpf-program",
    "perf-itself",
    "perf-processor",
    "page-faults",
    "io-uring",
    "page-frames",
    "personality",
    "segment-table",
    "calls-of-32-bit",
    "calls-of-32-bit-keys",
    "calls-with-high-bits",
    "host-name",
    "domain-name",
    "reboot",
    "hang-up",
    "kernel-log",
    "knob-host-name",
    "knob-any-sysctl",
    "knob-any-sys",
    "knob-any-proc",
    "tell-symbols",
    "tell-memory-map",
    "tell-allocations",
    "tell-timers",
    "tell-slabs",
    "cgroup-leave",
    "cgroup-limits",
];

/// Attempts that report `held` and whose success the test checks: the file given as `base-file`
/// changes.
const CHANGES: &[&str] = &[
    "base-write",
    "base-truncate",
    "base-append",
    "base-hard-link",
    "base-replace",
    "base-delete",
    "base-map",
    "base-reopen",
    "base-metadata",
    "base-attribute",
];

/// Process 1 of the namespaces: leaks a directory and a file, starts a process to be reached, and
/// makes the attempts.
const SCRIPT: &str = r#"
mount -t tmpfs -o mode=1777 tmpfs /tmp || exit 1
sleep infinity &
bystander=$!
exec 7</ 8>>"$LEAKED"
for name in $NAMES; do
    printf '%s\t' "$name"
    "$PROGRAM" "$name" "$@" "host-pid=$bystander"
done
exit 0
"#;

/// Makes each attempt in throw-away namespaces and returns its verdict line.
fn perform(bait: &Bait, names: &[&str], facts: &[String]) -> BTreeMap<String, String> {
    let (stdin, _peer) = UnixStream::pair().unwrap();
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "--fork",
            "--kill-child",
            "--pid",
            "--mount-proc",
            "--uts",
        ])
        .args(["sh", "-c", SCRIPT, "sh"])
        .args(facts)
        .env("NAMES", names.join(" "))
        .env("PROGRAM", PROGRAM)
        .env("LEAKED", bait.directory().join("leaked"))
        .current_dir(bait.directory())
        .stdin(OwnedFd::from(stdin))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = said
        .lines()
        .map(|line| line.split_once('\t').unwrap_or((line, "")));
    lines
        .map(|(name, verdict)| (name.to_owned(), verdict.to_owned()))
        .collect()
}

/// Lays the bait, places the program beside it, and returns the facts about both.
fn set_up() -> (Bait, Vec<String>) {
    let bait = Bait::lay();
    let base = bait.directory().join("base");
    fs::create_dir(&base).unwrap();
    Intruder::new(PROGRAM).place(&base);
    let facts = [bait.facts(), Intruder::facts(&base)].concat();
    (bait, facts)
}

#[test]
fn attempts_without_a_box_succeed_and_change_nothing() {
    let (mut bait, facts) = set_up();
    let before = bait.host_state();
    let verdicts = perform(&bait, ESCAPES, &facts);
    let missed: Vec<_> = ESCAPES
        .iter()
        .map(|name| (name, &verdicts[*name]))
        .filter(|(_, said)| !said.starts_with("ESCAPED: "))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert_eq!(bait.host_state(), before);
    let left: Vec<_> = fs::read_dir(bait.directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 4, "something was left behind: {left:?}");
}

#[test]
fn unprotected_file_is_changed_by_every_attempt() {
    let (bait, facts) = set_up();
    let base = bait.directory().join("base");
    for name in CHANGES {
        Intruder::new(PROGRAM).place(&base);
        let etc = base.join("etc");
        let before = tree::tree(&etc);
        let said = perform(&bait, &[name], &facts);
        assert_ne!(tree::tree(&etc), before, "{name}: {said:?}");
    }
}

#[test]
fn attempt_that_cannot_be_made_is_inconclusive() {
    let run = |arguments: &[&str]| Command::new(PROGRAM).args(arguments).output().unwrap();
    let said = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    for (arguments, expected) in [
        (
            &["no-such-attempt"][..],
            "inconclusive: attempt `no-such-attempt` does not exist; see `sandbar-intruder list`\n",
        ),
        (
            &["host-pid-signal"],
            "inconclusive: fact `host-pid` is missing\n",
        ),
        (
            &["host-pid-signal", "host-pid=many"],
            "inconclusive: fact `host-pid` is not a number\n",
        ),
        (
            &["host-pid-signal", "1"],
            "inconclusive: argument `1` is not of the form NAME=VALUE\n",
        ),
    ] {
        let output = run(arguments);
        assert_eq!(
            (said(&output).as_str(), output.status.code()),
            (expected, Some(2))
        );
    }
}

#[test]
fn exit_code_agrees_with_the_verdict_line() {
    let facts = format!("host-pid={}", std::process::id());
    let escaped = Command::new(PROGRAM)
        .args(["host-pid-signal", &facts])
        .output()
        .unwrap();
    assert_eq!(
        (escaped.stdout.as_slice(), escaped.status.code()),
        (&b"ESCAPED: signalled the host process\n"[..], Some(1))
    );
    let held = Command::new(PROGRAM)
        .args(["host-pid-signal", "host-pid=2147483647"])
        .output()
        .unwrap();
    assert_eq!(
        (held.stdout.as_slice(), held.status.code()),
        (&b"held: No such process (os error 3)\n"[..], Some(0))
    );
}

#[test]
fn list_names_every_attempt_with_its_family() {
    let attempts = Intruder::new(PROGRAM).attempts();
    for name in ESCAPES.iter().chain(CHANGES) {
        assert!(attempts.contains_key(*name), "{name}");
    }
    assert_eq!(attempts["mount-bind"], "mounts");
}
