//! Every layer of isolation of a native box, verified from inside.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

use sandbar_core::{ByteCount, Resources, RuntimeKind};
use sandbar_runtime::{ExecEvent, ExecSpec, StdinMode};

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

/// A Perl program that makes a system call and tells its outcome.
fn system_call(number: libc::c_long, arguments: &str) -> ExecSpec {
    let program = format!(
        "my @list = ({arguments}); my $outcome = syscall({number}, @list); print $outcome < 0 ? \"$!\" : $outcome;"
    );
    ExecSpec::new(["perl", "-e", &program])
}

#[test]
fn proc_shows_the_limits_of_the_box() {
    in_a_box(async |world| {
        let limits = Resources {
            memory: Some(ByteCount::mib(256)),
            cpus: Some(0.5),
            ..Resources::default()
        };
        let small = world.open_box("two", &limits);
        let memory = async |test_box: &TestBox| {
            output(test_box, "grep -E '^Mem(Total|Available)' /proc/meminfo").await
        };
        assert_eq!(
            memory(&small).await,
            "MemTotal:         262144 kB\nMemAvailable:     262144 kB\n"
        );
        let total = fs::read_to_string("/proc/meminfo").unwrap();
        let total = total.lines().next().unwrap().split_whitespace().nth(1);
        assert!(memory(world).await.contains(total.unwrap()));
        for count in [
            "grep -c ^processor /proc/cpuinfo",
            "grep -c '^cpu[0-9]' /proc/stat",
            "python3 -c 'import os; print(os.cpu_count())'",
            "free -m | perl -ane 'print $F[1] / 256, qq(\\n) if /^Mem/'",
            "df -m /dev/shm | perl -ane 'print $F[1] / 128, qq(\\n) if /shm/'",
        ] {
            assert_eq!(output(&small, count).await, "1\n", "{count}");
        }
        // A default limit is shown too.
        let bounded = world.open_box_with_default("three", ByteCount::mib(512));
        assert!(memory(&bounded).await.contains(" 524288 kB"));
        output(
            &small,
            "top -bn1 >/dev/null; ps aux >/dev/null; uptime >/dev/null",
        )
        .await;
        fails(&small, "echo 1 > /proc/meminfo", "").await;
        for test_box in [small, bounded] {
            test_box.stop().await;
        }
    });
}

/// Returns whether this process has `CAP_SYS_TIME`.
fn may_set_clocks() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(effective.unwrap().trim(), 16).unwrap();
    effective & (1 << 25) != 0
}

#[test]
fn proc_hides_what_the_machine_does() {
    in_a_box(async |world| {
        for (file, text) in [
            ("cmdline", "\n"),
            ("loadavg", "0.00 0.00 0.00 1/1 1\n"),
            ("diskstats", ""),
            ("partitions", ""),
            ("sys/fs/file-nr", "0\t0\t1048576\n"),
            ("sys/kernel/pty/nr", "0\n"),
        ] {
            let found = output(world, &format!("cat /proc/{file}")).await;
            assert_eq!(found, text, "{file}");
        }
        assert_eq!(output(world, "cat /proc/swaps | wc -l").await, "1\n");
        assert_eq!(output(world, "ls -A /proc/pressure; :").await, "");
        let running = output(world, "grep ctxt /proc/stat").await;
        assert_eq!(running, "ctxt 0\n");
        // Clocks begin with the box, if this test may set them.
        if may_set_clocks() {
            let inside = output(world, "cut -d. -f1 /proc/uptime").await;
            let machine = fs::read_to_string("/proc/uptime").unwrap();
            let machine: u64 = machine.split('.').next().unwrap().parse().unwrap();
            assert!(inside.trim().parse::<u64>().unwrap() < machine, "{inside}");
            let started = output(world, "grep btime /proc/stat | cut -d' ' -f2; date +%s").await;
            let times: Vec<u64> = started.lines().map(|time| time.parse().unwrap()).collect();
            assert!(times[1] - times[0] < machine, "{started}");
        }
    });
}

#[test]
fn inotify_instances_of_a_box_are_not_those_of_the_machine() {
    in_a_box(async |world| {
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap();
        let most: u64 = most.trim().parse().unwrap();
        // Two boxes together hold more than one user may.
        let some = most * 3 / 4;
        let neighbour = world.open_box("two", &Resources::default());
        let plain = world.open_box_with("three", &Resources::default(), Owners::AsOnDisk);
        let program = format!(
            "my $made = 0; for (1..{some}) {{ $made++ if syscall({}, 0) >= 0 }} $| = 1; print \"$made\\n\"; <STDIN>;",
            libc::SYS_inotify_init1
        );
        let mut holders = Vec::new();
        for test_box in [&**world, &neighbour, &plain] {
            let spec = ExecSpec {
                stdin: StdinMode::Piped,
                ..ExecSpec::new(["perl", "-e", &program])
            };
            let mut holder = test_box.start(spec).await.unwrap();
            let told = holder.next_event().await;
            assert_eq!(told, Some(ExecEvent::Stdout(format!("{some}\n").into())));
            holders.push(holder);
        }
        drop(holders);
        for test_box in [neighbour, plain] {
            test_box.stop().await;
        }
    });
}

#[test]
fn limits_of_other_processes_cannot_be_set() {
    in_a_box(async |world| {
        let change = |pid: u32| {
            system_call(
                libc::SYS_prlimit64,
                &format!("{pid}, 7, pack('QQ', 9, 9), 0"),
            )
        };
        let denied = "Operation not permitted";
        assert_eq!(world.finish(change(1)).await.stdout, denied);
        assert_eq!(world.finish(change(2)).await.stdout, denied);
        assert_eq!(world.finish(change(0)).await.stdout, "0");
        let read = system_call(libc::SYS_prlimit64, "$$, 7, 0, ' ' x 16");
        assert_eq!(world.finish(read).await.stdout, "0");
        assert!(world.is_alive());
    });
}

#[test]
fn netlink_is_limited_to_routes_and_sockets() {
    in_a_box(async |world| {
        let open = r#"
            use Socket;
            for my $protocol (0..22) {
                print "$protocol " if socket(my $socket, 16, SOCK_RAW, $protocol);
            }
        "#;
        let told = world.finish(ExecSpec::new(["perl", "-e", open])).await;
        assert_eq!(told.stdout, "0 4 ");
    });
}

#[test]
fn rename_leaves_no_device_node() {
    in_a_box(async |world| {
        output(world, "touch /dev/shm/from from").await;
        for directory in ["/dev/shm", "/workspace"] {
            // AT_FDCWD and RENAME_WHITEOUT.
            let rename = format!("-100, '{directory}/from', -100, '{directory}/to', 4");
            let told = world
                .finish(system_call(libc::SYS_renameat2, &rename))
                .await;
            assert_eq!(told.stdout, "Operation not permitted");
            output(
                world,
                &format!("test -f {directory}/from && mv {directory}/from {directory}/to"),
            )
            .await;
        }
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
            let filler = "head -c 300M /dev/zero > /dev/shm/filler";
            fails(&full, filler, "No space left").await;
            // Half of the limit is in use, by no process; the OOM killer must not choose init.
            let ended = full
                .finish(shell("exec dd if=/dev/zero of=/dev/null bs=40M count=1"))
                .await;
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
