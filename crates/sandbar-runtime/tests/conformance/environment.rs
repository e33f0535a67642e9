//! Environment of a command at its start.

use std::{collections::BTreeMap, fs};

use sandbar_core::{ErrorCode, RuntimeKind};
use sandbar_runtime::ExecSpec;

use crate::{
    test_box::Ended,
    world::{World, shell},
};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) fn environment_is_exactly_defaults_and_given_variables(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let environment = async |given: &[(&str, &str)]| {
            let mut spec = ExecSpec::new(["env"]);
            spec.env = given
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let ended = world.finish(spec).await;
            let mut lines: Vec<String> = ended.stdout.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        assert_eq!(environment(&[]).await, ["HOME=/root", PATH]);
        let given = [
            ("ONE", "1"),
            ("HOME", "/workspace"),
            ("EMPTY", ""),
            ("ODD", "a=b \"c\" é"),
            ("PATH", "/usr/bin"),
        ];
        let expected = [
            "EMPTY=",
            "HOME=/workspace",
            "ODD=a=b \"c\" é",
            "ONE=1",
            "PATH=/usr/bin",
        ];
        assert_eq!(environment(&given).await, expected);
    });
}

pub(crate) fn arguments_arrive_unchanged(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let odd = [
            "",
            " two  blanks ",
            "*",
            "$HOME",
            "new\nline",
            "'\"",
            "é",
            "--",
        ];
        let argv = ["printf", "%s|"].into_iter().chain(odd);
        let expected: String = odd.iter().flat_map(|argument| [argument, "|"]).collect();
        assert_eq!(world.finish(ExecSpec::new(argv)).await.stdout, expected);
    });
}

pub(crate) fn command_starts_in_workspace_or_given_directory(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let directory = async |cwd: &str| {
            let spec = ExecSpec {
                cwd: Some(cwd.into()),
                ..ExecSpec::new(["pwd", "-P"])
            };
            world.start(spec).await
        };
        let shown = async |cwd: &str| Ended::of(directory(cwd).await.unwrap()).await.stdout;
        assert_eq!(
            world.finish(ExecSpec::new(["pwd"])).await.stdout,
            "/workspace\n"
        );
        assert_eq!(shown("/tmp").await, "/tmp\n");
        assert_eq!(shown("/").await, "/\n");
        fs::create_dir(world.path_inside("workspace/sub")).unwrap();
        assert_eq!(shown("sub").await, "/workspace/sub\n");
        std::os::unix::fs::symlink("/tmp", world.path_inside("workspace/link")).unwrap();
        assert_eq!(shown("link").await, "/tmp\n");
        fs::write(world.path_inside("workspace/file"), "").unwrap();
        for missing in ["/no/such", "no-such", "file"] {
            let error = directory(missing).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("cwd"))
            );
        }
    });
}

pub(crate) fn root_is_the_session_tree_without_host_mounts(kind: RuntimeKind) {
    World::run(kind, async |world| {
        fs::write(world.path_inside("marker"), "mine").unwrap();
        let ended = world
            .finish(shell("cat /marker; ls -A /var 2>/dev/null; id -u; test -c /dev/null && cat /proc/self/comm"))
            .await;
        assert_eq!(ended.stdout, "mine0\ncat\n", "{}", ended.stderr);
        let mounts = world
            .finish(ExecSpec::new(["cat", "/proc/self/mounts"]))
            .await
            .stdout;
        assert!(!mounts.contains("sandbar-test-"), "{mounts}");
    });
}

pub(crate) fn files_of_a_command_belong_to_root_on_disk(kind: RuntimeKind) {
    use std::os::unix::fs::MetadataExt;
    World::run(kind, async |world| {
        world.finish(shell("mkdir made; echo x > made/file")).await;
        for name in ["workspace/made", "workspace/made/file"] {
            let found = fs::metadata(world.path_inside(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (0, 0), "{name}");
        }
    });
}

/// Not with `ls`, which asks for more than every version of gVisor knows.
const DESCRIPTORS: &str = "find /proc/$$/fd -mindepth 1 -printf '%f\\n'; true";

pub(crate) fn command_inherits_only_three_descriptors(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let leaky = fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty()).unwrap();
        let ended = world.finish(shell(DESCRIPTORS)).await;
        assert_eq!(ended.stdout, "0\n1\n2\n");
        let first = world
            .start(ExecSpec::new(["sleep", "4040.1"]))
            .await
            .unwrap();
        // Nor what belongs to another command.
        assert_eq!(world.finish(shell(DESCRIPTORS)).await.stdout, "0\n1\n2\n");
        drop(first);
    });
}

pub(crate) fn command_starts_with_default_signals_and_umask(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = world
            .finish(ExecSpec::new([
                "env",
                "--list-signal-handling",
                "sh",
                "-c",
                "umask",
            ]))
            .await;
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("0022\n", "")
        );
    });
}

pub(crate) fn command_leads_its_own_process_session(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // pid, name, state, parent, group, session, terminal.
        let ended = world.finish(shell("cat /proc/$$/stat")).await;
        let fields: Vec<&str> = ended.stdout.split_whitespace().collect();
        assert_eq!(
            (fields[4], fields[5], fields[6]),
            (fields[0], fields[0], "0")
        );
    });
}

pub(crate) fn box_has_the_usual_directories_and_devices(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "for device in null zero full random urandom tty ptmx; do test -c /dev/$device || echo no $device; done; \
                      head -c 3 /dev/zero | wc -c; echo gone > /dev/null; test -d /dev/shm && test -w /tmp && \
                      echo here > /dev/stdout; echo there > /dev/stderr; find /tmp -maxdepth 0 -printf '%m\\n'";
        let ended = world.finish(shell(script)).await;
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("3\nhere\n1777\n", "there\n")
        );
    });
}

pub(crate) fn invalid_variable_is_rejected_by_field(kind: RuntimeKind) {
    World::run(kind, async |world| {
        for (name, value) in [("A=B", ""), ("", "x"), ("NUL", "a\0b")] {
            let mut spec = ExecSpec::new(["true"]);
            spec.env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let error = world.start(spec).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("env"))
            );
        }
    });
}
