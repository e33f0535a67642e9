//! Every layer of isolation of a native box, verified from inside.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

use sandbar_core::{ByteCount, Resources, RuntimeKind};
use sandbar_runtime::ExecSpec;

use crate::{
    test_box::TestBox,
    world::{Owners, World, shell},
};

fn in_a_box(test: impl AsyncFnOnce(&World)) {
    World::run(RuntimeKind::Native, test);
}

async fn output(test_box: &TestBox, script: &str) -> String {
    let ended = test_box.finish(shell(script)).await;
    assert_eq!(ended.stderr, "", "{script}");
    ended.stdout
}

/// Asserts that a command fails with this text in its stderr.
async fn fails(test_box: &TestBox, attempt: &str, complaint: &str) {
    let ended = test_box.finish(shell(attempt)).await;
    assert_ne!(ended.status.code, Some(0), "{attempt}: {}", ended.stdout);
    assert!(
        ended.stderr.contains(complaint),
        "{attempt}: {}",
        ended.stderr
    );
}

/// Returns the fields of `/proc/self/status` in the box.
async fn status(test_box: &TestBox) -> BTreeMap<String, String> {
    let text = output(test_box, "cat /proc/self/status").await;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

#[test]
fn box_sees_only_its_own_processes_and_init_is_pid_1() {
    in_a_box(async |world| {
        let seen = output(world, "echo $$ /proc/[0-9]*").await;
        let own = seen.split_whitespace().next().unwrap();
        assert_eq!(seen, format!("{own} /proc/1 /proc/{own}\n"));
        assert!(own.parse::<u32>().unwrap() < 100);
        // A signal to all processes reaches none outside.
        let neighbour = world.open_box("two", &Resources::default());
        let running = neighbour
            .start(ExecSpec::new(["sleep", "5252.1"]))
            .await
            .unwrap();
        world.finish(shell("kill -9 -1")).await;
        assert_eq!(neighbour.count("sleep\x005252.1").await, 1);
        assert!(world.is_alive());
        drop(running);
        neighbour.stop().await;
    });
}

#[test]
fn every_namespace_differs_from_the_host() {
    in_a_box(async |world| {
        let list = "cd /proc/self/ns; for name in *; do echo $name $(readlink $name); done";
        let inside = output(world, list).await;
        for name in ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"] {
            let host = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
            let own = inside
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} ")))
                .unwrap();
            assert_ne!(own, host.to_str().unwrap());
        }
    });
}

#[test]
fn host_name_is_that_of_the_session() {
    in_a_box(async |world| {
        assert_eq!(
            output(world, "uname -n; cat /proc/sys/kernel/hostname").await,
            "one\none\n"
        );
        assert_ne!(
            fs::read_to_string("/proc/sys/kernel/hostname").unwrap(),
            "one\n"
        );
    });
}

#[test]
fn every_box_has_a_boot_id_of_its_own() {
    in_a_box(async |world| {
        let ask = "cat /proc/sys/kernel/random/boot_id";
        let own = output(world, ask).await;
        assert!(own.len() == 37 && own.matches('-').count() == 4, "{own}");
        assert_eq!(output(world, ask).await, own);
        assert_ne!(
            own,
            fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap()
        );
        // Prepared ones, and one that was not.
        for name in ["two", "three", "four"] {
            let other = world.open_box(name, &Resources::default());
            assert_ne!(output(&other, ask).await, own);
            other.stop().await;
        }
        fails(
            world,
            "echo x > /proc/sys/kernel/random/boot_id",
            "Read-only file system",
        )
        .await;
        let mounts = output(world, "cat /proc/self/mountinfo").await;
        assert!(!mounts.contains(" /boot "), "{mounts}");
    });
}

/// Talks to itself over the loopback.
const ECHO: &str = r#"
    use Socket;
    socket(my $server, PF_INET, SOCK_STREAM, 0) or die; bind($server, sockaddr_in(0, INADDR_LOOPBACK)) or die $!;
    listen($server, 1) or die; my $address = getsockname($server);
    socket(my $client, PF_INET, SOCK_STREAM, 0) or die; connect($client, $address) or die $!;
    accept(my $peer, $server) or die; syswrite($client, "through\n"); sysread($peer, my $text, 100); print $text;
"#;

#[test]
fn network_is_a_working_loopback_only() {
    in_a_box(async |world| {
        let interfaces = output(world, "cat /proc/net/dev").await;
        let names: Vec<&str> = interfaces
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, _)| name.trim())
            .collect();
        assert_eq!(names, ["lo"]);
        assert_eq!(
            output(world, "cat /proc/net/route").await.lines().count(),
            1,
            "only the headings"
        );
        let ended = world.finish(ExecSpec::new(["perl", "-e", ECHO])).await;
        assert_eq!(ended.stdout, "through\n", "{}", ended.stderr);
    });
}

#[test]
fn users_of_a_box_are_a_private_range_on_the_host() {
    in_a_box(async |world| {
        let maps = output(world, "cat /proc/self/uid_map /proc/self/gid_map").await;
        let fields: Vec<u32> = maps
            .split_whitespace()
            .map(|field| field.parse().unwrap())
            .collect();
        let first = fields[1];
        assert_eq!(fields, [0, first, 65_536, 0, first, 65_536]);
        assert!(first >= 0x7000_0000);
        let neighbour = world.open_box("two", &Resources::default());
        assert_ne!(
            output(&neighbour, "cat /proc/self/uid_map /proc/self/gid_map").await,
            maps
        );
        for pid in world.on_host() {
            let process = fs::metadata(format!("/proc/{pid}/task")).unwrap();
            assert!(
                process.uid() == first || process.uid() == 0,
                "/proc shows root for processes that are not dumpable"
            );
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            assert!(
                status.contains(&format!("Uid:\t{first}\t{first}\t{first}\t{first}\n")),
                "{status}"
            );
        }
        neighbour.stop().await;
    });
}

async fn assert_no_privileges(test_box: &TestBox) {
    let status = status(test_box).await;
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
    assert_eq!(
        (status["NoNewPrivs"].as_str(), status["Seccomp"].as_str()),
        ("1", "2")
    );
    assert_eq!(status["Groups"], "");
    assert_eq!(output(test_box, "ulimit -c; ulimit -Hc").await, "0\n0\n");
    fails(
        test_box,
        "touch file; chown 1000 file",
        "Operation not permitted",
    )
    .await;
    fails(test_box, "mknod device c 1 3", "mknod: device: ").await;
    fails(test_box, "mount -t tmpfs none /tmp", "").await;
    fails(test_box, "unshare --user true", "Operation not permitted").await;
    fails(test_box, "echo other > /proc/sys/kernel/hostname", "").await;
}

#[test]
fn command_has_no_privileges_and_cannot_gain_any() {
    in_a_box(async |world| assert_no_privileges(world).await);
}

#[test]
fn box_without_id_map_has_no_privileges() {
    in_a_box(async |world| {
        let plain = world.open_box_with("two", &Resources::default(), Owners::AsOnDisk);
        let maps = output(&plain, "cat /proc/self/uid_map").await;
        assert_eq!(
            maps.split_whitespace().collect::<Vec<_>>(),
            ["0", "0", "65536"]
        );
        assert_no_privileges(&plain).await;
        let host = fs::read_link("/proc/self/ns/user").unwrap();
        assert_ne!(
            output(&plain, "readlink /proc/self/ns/user").await.trim(),
            host.to_str().unwrap()
        );
        // Root on disk, and still it may not do what root may.
        output(&plain, "echo mine > file").await;
        assert_eq!(
            fs::metadata(plain.path_inside("workspace/file"))
                .unwrap()
                .uid(),
            0
        );
        fs::write(plain.path_inside("workspace/foreign"), "").unwrap();
        std::os::unix::fs::chown(plain.path_inside("workspace/foreign"), Some(1), Some(1)).unwrap();
        fails(&plain, "echo x > foreign", "Permission denied").await;
        plain.stop().await;
    });
}

#[test]
fn proc_hides_the_machine_and_sysctls_are_read_only() {
    in_a_box(async |world| {
        let files = [
            "kcore",
            "kallsyms",
            "keys",
            "key-users",
            "sysrq-trigger",
            "timer_list",
        ];
        for name in files
            .iter()
            .filter(|name| fs::exists(format!("/proc/{name}")).unwrap())
        {
            let shown = output(
                world,
                &format!("stat -c '%F %t %T' /proc/{name}; cat /proc/{name}"),
            )
            .await;
            assert_eq!(shown, "character special file 1 3\n", "{name}");
        }
        // Reserved for root on the host, and root in the box is another uid.
        for name in ["kmsg", "slabinfo", "vmallocinfo"]
            .iter()
            .filter(|name| fs::exists(format!("/proc/{name}")).unwrap())
        {
            fails(world, &format!("cat /proc/{name}"), "Permission denied").await;
        }
        for name in ["acpi", "bus", "driver", "fs", "irq", "scsi", "tty"] {
            assert_eq!(
                output(
                    world,
                    &format!("ls -A /proc/{name} 2>&1 | grep -v 'No such file'; :")
                )
                .await,
                "",
                "{name}"
            );
        }
        fails(
            world,
            "echo 1 > /proc/sys/vm/overcommit_memory",
            "Read-only file system",
        )
        .await;
        fails(
            world,
            "echo core > /proc/sys/kernel/core_pattern",
            "Read-only file system",
        )
        .await;
        fails(world, "echo -1000 > /proc/self/oom_score_adj", "error").await;
    });
}

#[test]
fn devices_are_limited_to_the_standard_nodes() {
    in_a_box(async |world| {
        let names =
            "core fd full null ptmx pts random sandbar shm stderr stdin stdout tty urandom zero";
        assert_eq!(output(world, "echo $(ls /dev)").await, format!("{names}\n"));
        assert_eq!(output(world, "ls /dev/pts").await, "ptmx\n");
        fails(world, "touch /dev/new", "Read-only file system").await;
        fails(world, "rm /dev/null", "Read-only file system").await;
    });
}

#[test]
fn only_mounts_of_the_box_are_visible() {
    in_a_box(async |world| {
        let mounts = output(world, "cat /proc/self/mountinfo").await;
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let place = fields[4];
            let expected = ["/", "/usr", "/proc", "/dev", "/dev/pts", "/dev/shm"].contains(&place)
                || place.starts_with("/proc/");
            assert!(expected, "{line}");
            if place != "/" && place != "/usr" {
                assert!(
                    fields[5].split(',').any(|option| option == "nosuid"),
                    "{line}"
                );
            }
            // Mounts propagate neither from the host nor to it.
            assert!(fields[6] == "-", "{line}");
        }
        assert!(!mounts.contains("sandbar-test-") && !mounts.contains("cgroup"));
        assert_eq!(
            output(world, "ls -A /sys 2>/dev/null; test -e /sys || echo absent").await,
            "absent\n"
        );
        assert_eq!(
            output(world, "cd /; echo $(ls ..)").await,
            "bin dev lib lib64 proc sbin tmp usr var workspace\n"
        );
    });
}

#[test]
fn init_cannot_be_traced_or_killed_by_commands() {
    in_a_box(async |world| {
        for (attempt, complaint) in [
            ("cat /proc/1/environ", "Permission denied"),
            ("ls /proc/1/fd/", "Permission denied"),
            ("readlink -v /proc/1/root", "Permission denied"),
            ("readlink -v /proc/1/exe", "Permission denied"),
            ("cat /proc/1/maps", "Permission denied"),
            ("echo > /proc/1/mem", "Permission denied"),
        ] {
            fails(world, attempt, complaint).await;
        }
        // Signals to the first process of a namespace from inside are dropped.
        world
            .finish(shell("kill -9 1; kill -TERM 1; kill -STOP 1"))
            .await;
        assert_eq!(
            world.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
    });
}

#[test]
fn command_does_not_see_the_path_of_its_cgroup() {
    in_a_box(async |world| {
        let groups = output(world, "cat /proc/self/cgroup /proc/1/cgroup").await;
        assert!(
            !groups.contains("sandbar") && !groups.contains("box-") && !groups.contains(".."),
            "{groups}"
        );
        assert!(
            groups
                .lines()
                .any(|line| line == "0::/" || line == "0::/init"),
            "{groups}"
        );
    });
}

#[test]
fn shared_memory_of_the_host_is_not_visible() {
    in_a_box(async |world| {
        for kind in ["shm", "sem", "msg"] {
            assert_eq!(
                output(world, &format!("cat /proc/sysvipc/{kind}"))
                    .await
                    .lines()
                    .count(),
                1,
                "only the headings"
            );
        }
        assert_eq!(output(world, "ls -A /dev/shm").await, "");
        let neighbour = world.open_box("two", &Resources::default());
        output(world, "echo mine > /dev/shm/file").await;
        assert_eq!(output(&neighbour, "ls -A /dev/shm").await, "");
        assert_eq!(output(world, "cat /dev/shm/file").await, "mine\n");
        neighbour.stop().await;
    });
}

#[test]
fn files_in_dev_shm_count_towards_the_memory_limit() {
    in_a_box(async |world| {
        let limits = Resources {
            memory: Some(ByteCount::mib(64)),
            ..Resources::default()
        };
        for round in 0..5 {
            let full = world.open_box(&format!("full-{round}"), &limits);
            let ended = full
                .finish(shell("exec head -c 300M /dev/zero > /dev/shm/filler"))
                .await;
            // The memory belongs to no process; the OOM killer must not choose init.
            assert!(
                ended.status.oom_killed && ended.status.signal == Some(9),
                "{ended:?}"
            );
            assert!(full.is_alive());
            assert_eq!(
                world.finish(ExecSpec::new(["true"])).await.status.code,
                Some(0)
            );
            full.stop().await;
        }
    });
}
