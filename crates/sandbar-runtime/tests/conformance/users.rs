//! Commands of other users than root.

use std::{fs, os::unix::fs::MetadataExt};

use sandbar_core::{RuntimeKind, UserAccount};
use sandbar_runtime::{ExecSpec, StdinMode, TerminalSize};

use crate::{
    test_box::{Ended, TestBox},
    world::{World, shell},
};

const PASSWD: &str = "user:x:1000:1001::/home/user:/bin/bash\nother:x:1002:1002::/:/bin/sh";
const GROUP: &str = "staff:x:50:user\nroot:x:0:root\n";

fn account(name: &str) -> UserAccount {
    UserAccount::find(name, PASSWD, GROUP).unwrap()
}

async fn finish_as(test_box: &TestBox, user: &str, script: &str) -> Ended {
    Ended::of(
        test_box
            .start_as(shell(script), account(user))
            .await
            .unwrap(),
    )
    .await
}

async fn output(test_box: &TestBox, user: &str, script: &str) -> String {
    let ended = finish_as(test_box, user, script).await;
    assert_eq!(ended.stderr, "", "{script}");
    ended.stdout
}

pub(crate) fn command_and_its_files_belong_to_its_user(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let told = output(
            world,
            "user",
            "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; pwd; umask",
        )
        .await;
        assert_eq!(
            told,
            "1000\n1001\n1001 50\n/home/user user user\n/workspace\n0022\n"
        );
        output(world, "user", "mkdir /tmp/made; echo x > /tmp/made/file").await;
        for name in ["tmp/made", "tmp/made/file"] {
            let found = fs::metadata(world.path_inside(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (1000, 1001), "{name}");
        }
        assert_eq!(
            output(world, "root", "id -u; id -g; id -G; echo $HOME $USER").await,
            "0\n0\n0\n/root root\n"
        );
        assert_eq!(
            output(world, "4711", "id -u; id -g; id -G; echo $HOME $USER").await,
            "4711\n4711\n4711\n/ 4711\n"
        );
        // The next command runs as root again.
        assert_eq!(world.finish(shell("id -u; id -G")).await.stdout, "0\n0\n");
    });
}

pub(crate) fn user_has_no_rights_over_others(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let root = world
            .start(ExecSpec::new(["sleep", "4646.1"]))
            .await
            .unwrap();
        let other = world
            .start_as(ExecSpec::new(["sleep", "4646.2"]), account("other"))
            .await
            .unwrap();
        world
            .finish(shell("echo secret > /tmp/secret; chmod 600 /tmp/secret"))
            .await;
        let attempts = [
            format!("kill -9 {}", root.pid),
            format!("kill -9 {}", other.pid),
            "cat /tmp/secret".to_owned(),
            "echo x > /workspace/file".to_owned(),
            "rm /tmp/secret".to_owned(),
            "chown 0 /tmp/own".to_owned(),
            "perl -e '$> = 0; exit($> == 0 ? 0 : 1)'".to_owned(),
            "perl -e '$) = 0; exit($) == 0 ? 0 : 1)'".to_owned(),
            "ls /proc/1/fd/0".to_owned(),
        ];
        for attempt in attempts {
            // Without isolation these pids are the host's, and root of the box is root.
            if kind == RuntimeKind::None && attempt.contains("/proc/1/") {
                continue;
            }
            let ended = finish_as(world, "user", &format!("touch /tmp/own; {attempt}")).await;
            assert_ne!(ended.status.code, Some(0), "{attempt}: {}", ended.stdout);
        }
        let sets = output(
            world,
            "user",
            "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status",
        )
        .await;
        assert_eq!(
            sets.lines().count(),
            if sets.contains("CapAmb") { 4 } else { 3 },
            "{sets}"
        );
        assert!(
            sets.lines().all(|line| line.ends_with("0000000000000000")),
            "{sets}"
        );
        assert_eq!(world.count("sleep\x004646.").await, 2);
        drop((root, other));
    });
}

pub(crate) fn signals_and_kill_reach_commands_of_every_user(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.01; done";
        let mut command = world
            .start_as(shell(script), account("user"))
            .await
            .unwrap();
        assert!(command.next_event().await.is_some(), "it is ready");
        command.signal(10).unwrap();
        let ended = Ended::of(command).await;
        assert_eq!(
            (ended.stdout.as_str(), ended.status.code),
            ("caught\n", Some(3))
        );

        let mut late = shell("setsid sleep 4747.1 & sleep 4747.2");
        late.resources.wall_time = Some(std::time::Duration::from_millis(200));
        let ended = Ended::of(world.start_as(late, account("user")).await.unwrap()).await;
        assert!(ended.status.timed_out);
        world.wait_until_gone("sleep\x004747.").await;
    });
}

pub(crate) fn streams_and_terminal_belong_to_the_user(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = finish_as(
            world,
            "user",
            "echo here > /dev/stdout; echo there > /dev/stderr",
        )
        .await;
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("here\n", "there\n")
        );
        // A closed named pipe has no writer; opening it again
        // blocks until there is one.
        let program = if kind == RuntimeKind::Gvisor {
            "cat"
        } else {
            "cat /dev/stdin"
        };
        let mut spec = shell(program);
        spec.stdin = StdinMode::Piped;
        let command = world.start_as(spec, account("user")).await.unwrap();
        let stdin = command.stdin().unwrap();
        stdin.write("read".into()).await.unwrap();
        stdin.close();
        assert_eq!(Ended::of(command).await.stdout, "read");
        // gVisor containers have no names for their terminals.
        let (script, expected) = if kind == RuntimeKind::Gvisor {
            ("stty size <&1; id -u", "12 34\r\n1000\r\n")
        } else {
            (
                "stty size < $(tty); id -u; echo by name > $(tty); echo at all > /dev/tty",
                "12 34\r\n1000\r\nby name\r\nat all\r\n",
            )
        };
        let mut spec = shell(script);
        spec.terminal = Some(TerminalSize {
            rows: 12,
            columns: 34,
        });
        let ended = Ended::of(world.start_as(spec, account("user")).await.unwrap()).await;
        assert_eq!(ended.stdout, expected);
    });
}

pub(crate) fn working_directory_denied_to_user_is_rejected(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.finish(shell("mkdir -m 700 /workspace/roots")).await;
        let inside = || ExecSpec {
            cwd: Some("roots".into()),
            ..shell("pwd")
        };
        let error = world.start_as(inside(), account("user")).await.unwrap_err();
        assert_eq!(error.field(), Some("cwd"), "{error}");
        assert_eq!(world.finish(inside()).await.stdout, "/workspace/roots\n");
    });
}

pub(crate) fn user_without_account_never_runs_as_root(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let spec = ExecSpec {
            user: Some("user".into()),
            ..shell("id -u")
        };
        world.start(spec).await.unwrap_err();
    });
}

#[test]
fn uid_of_the_gvisor_init_is_rejected_for_commands() {
    World::run(RuntimeKind::Gvisor, async |world| {
        let error = world
            .start_as(shell("kill -9 1"), account("65533"))
            .await
            .unwrap_err();
        assert_eq!(error.field(), Some("user"), "{error}");
        assert!(world.is_alive());
    });
}
