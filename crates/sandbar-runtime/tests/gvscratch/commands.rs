//! Starting commands, and what comes out of them.

use std::{collections::BTreeMap, time::Duration};

use crate::world::{Ended, World, shell};
use bytes::Bytes;
use sandbar_core::{ByteCount, ErrorCode, NetworkAccess, Resources, RuntimeKind};
use sandbar_runtime::{ExecEvent, ExecSpec, Runtime, StdinMode};

pub(crate) fn the_streams_of_a_command_come_separately_and_the_exit_comes_last(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = world.finish(shell("echo to-out; echo to-err >&2; exit 7")).await;
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("to-out\n", "to-err\n"));
        assert_eq!((ended.status.code, ended.status.signal), (Some(7), None));
        assert!(!ended.status.timed_out && !ended.status.truncated);
    });
}

pub(crate) fn stdin_is_read_to_its_end(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = ExecSpec::new(["cat"]);
        spec.stdin = StdinMode::Piped;
        let command = world.start(spec).await.unwrap();
        let stdin = command.stdin().unwrap();
        let payload: Vec<u8> = (0..300_000u32).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
        let expected = String::from_utf8(payload.clone()).unwrap();
        let feeder = tokio::spawn(async move {
            for chunk in payload.chunks(10_000) {
                stdin.write(Bytes::copy_from_slice(chunk)).await.unwrap();
            }
            stdin.close();
            assert_eq!(stdin.write(Bytes::from_static(b"x")).await.unwrap_err().code(), ErrorCode::InvalidState);
        });
        let ended = Ended::of(command).await;
        feeder.await.unwrap();
        assert_eq!((ended.stdout.len(), ended.status.code), (expected.len(), Some(0)));
        assert_eq!(ended.stdout, expected);
    });
}

pub(crate) fn a_command_without_stdin_reads_end_of_file_at_once(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = world.finish(shell("cat; echo done")).await;
        assert_eq!(ended.stdout, "done\n");
    });
}

pub(crate) fn death_by_signal_is_told_and_signals_reach_the_group(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = world.finish(shell("kill -TERM $$")).await;
        assert_eq!((ended.status.code, ended.status.signal), (None, Some(15)));

        let mut command = world
            .start(shell("trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"))
            .await
            .unwrap();
        assert_eq!(command.next_event().await, Some(ExecEvent::Stdout(Bytes::from_static(b"ready\n"))));
        assert_eq!(command.signal(9999).unwrap_err().field(), Some("signal"));
        command.signal(2).unwrap();
        let ended = Ended::of(command).await;
        assert_eq!((ended.stdout.as_str(), ended.status.code), ("caught\n", Some(3)));
    });
}

pub(crate) fn the_environment_is_exactly_the_defaults_and_what_was_given(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = ExecSpec::new(["env"]);
        spec.env = BTreeMap::from([("ONE".into(), "1".into()), ("HOME".into(), "/workspace".into())]);
        let ended = world.finish(spec).await;
        let mut lines: Vec<&str> = ended.stdout.lines().collect();
        lines.sort_unstable();
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(lines, ["HOME=/workspace", "ONE=1", path]);
    });
}

pub(crate) fn a_command_starts_in_the_workspace_or_where_it_is_told(kind: RuntimeKind) {
    World::run(kind, async |world| {
        assert_eq!(world.finish(ExecSpec::new(["pwd"])).await.stdout, "/workspace\n");
        let mut spec = ExecSpec::new(["pwd"]);
        spec.cwd = Some("/tmp".into());
        assert_eq!(world.finish(spec.clone()).await.stdout, "/tmp\n");
        std::fs::create_dir(world.root().join("workspace/sub")).unwrap();
        spec.cwd = Some("sub".into());
        assert_eq!(world.finish(spec.clone()).await.stdout, "/workspace/sub\n");
        spec.cwd = Some("/no/such".into());
        let error = world.start(spec).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (ErrorCode::InvalidArgument, Some("cwd")));
    });
}

pub(crate) fn the_session_s_tree_is_the_root_and_the_rest_of_the_host_is_not_mounted(kind: RuntimeKind) {
    World::run(kind, async |world| {
        std::fs::write(world.root().join("marker"), "mine").unwrap();
        let ended = world
            .finish(shell("cat /marker; ls -A /var 2>/dev/null; id -u; test -c /dev/null && cat /proc/self/comm"))
            .await;
        assert_eq!(ended.stdout, "mine0\ncat\n", "{}", ended.stderr);
        let mounts = world.finish(ExecSpec::new(["cat", "/proc/self/mounts"])).await.stdout;
        assert!(!mounts.contains("sandbar-test-"), "{mounts}");
    });
}

pub(crate) fn only_three_descriptors_reach_a_command(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let leaky = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty()).unwrap();
        let ended = world.finish(shell("ls /proc/$$/fd")).await;
        assert_eq!(ended.stdout, "0\n1\n2\n");
    });
}

pub(crate) fn an_unknown_command_is_not_found_and_a_plain_file_is_not_executable(kind: RuntimeKind) {
    World::run(kind, async |world| {
        for argv in [["no-such-program"], ["/no/such/program"]] {
            let error = world.start(ExecSpec::new(argv)).await.unwrap_err();
            assert_eq!((error.code(), error.field()), (ErrorCode::FileNotFound, Some("argv")));
        }
        std::fs::write(world.root().join("workspace/plain"), "hello").unwrap();
        let error = world.start(ExecSpec::new(["./plain"])).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (ErrorCode::InvalidArgument, Some("argv")));
        assert_eq!(world.start(ExecSpec::new(Vec::<String>::new())).await.unwrap_err().field(), Some("argv"));
    });
}

pub(crate) fn a_program_is_searched_inside_the_session_and_a_script_needs_no_interpreter_line(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = world.root().join("workspace/greet");
        std::fs::write(&script, "echo hello $1\n").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut spec = ExecSpec::new(["greet", "you"]);
        spec.env = BTreeMap::from([("PATH".into(), "/workspace:/usr/bin:/bin".into())]);
        assert_eq!(world.finish(spec).await.stdout, "hello you\n");
    });
}

pub(crate) fn a_timeout_ends_the_command_with_its_daemons_and_keeps_its_output(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = shell("echo begun; setsid sh -c 'sh -c \"exec sleep 4242.1\" & ' & sleep 4242.2");
        spec.resources.wall_time = Some(Duration::from_millis(600));
        let ended = world.finish(spec).await;
        assert!(ended.status.timed_out);
        assert_eq!((ended.status.code, ended.status.signal), (None, Some(9)));
        assert_eq!(ended.stdout, "begun\n");
        world.wait_until_gone("4242.1").await;
        world.wait_until_gone("4242.2").await;
    });
}

pub(crate) fn background_jobs_survive_their_command_and_die_with_the_sandbox(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "setsid sh -c 'while :; do echo tick; date >> /workspace/log; sleep 0.01; done' & echo started";
        let ended = world.finish(shell(script)).await;
        assert!(ended.stdout.contains("started\n"));
        assert_eq!(ended.status.code, Some(0));
        let log = world.root().join("workspace/log");
        let size = || std::fs::metadata(&log).map_or(0, |log| log.len());
        // More than a pipe holds is written: nobody reads it, and still the job goes on.
        let before = size();
        World::wait_for("the job to go on", || size() > before + 100).await;
        world.stop().await;
        let after = size();
        assert!(world.processes_with("/workspace/log").is_empty());
        assert_eq!(size(), after);
    });
}

pub(crate) fn a_timeout_of_one_call_spares_the_background_jobs_of_another(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.finish(shell("sleep 4343.1 &")).await;
        let mut spec = shell("sleep 4343.2");
        spec.resources.wall_time = Some(Duration::from_millis(50));
        assert!(world.finish(spec).await.status.timed_out);
        World::wait_for("the job to run", || world.processes_with("sleep\x004343.1").len() == 1).await;
        world.stop().await;
        assert!(world.processes_with("4343.1").is_empty());
    });
}

pub(crate) fn output_beyond_the_limit_is_dropped_and_told(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = shell("head -c 300000 /dev/zero | tr '\\0' x; echo small >&2");
        spec.resources.output = Some(ByteCount(100_000));
        let ended = world.finish(spec.clone()).await;
        assert_eq!((ended.stdout.len(), ended.stderr.as_str()), (100_000, "small\n"));
        assert!(ended.status.truncated);
        assert_eq!(ended.status.code, Some(0));
        spec.resources.output = Some(ByteCount(300_000));
        let ended = world.finish(spec).await;
        assert_eq!((ended.stdout.len(), ended.status.truncated), (300_000, false));
    });
}

pub(crate) fn a_slow_reader_slows_the_command_down_and_loses_nothing(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "head -c 2000000 /dev/zero | tr '\\0' x; echo written > /workspace/flag";
        let command = world.start(shell(script)).await.unwrap();
        let flag = world.root().join("workspace/flag");
        // Nobody reads: what is on its way is bounded, so the writer cannot have finished.
        World::wait_for("the pipe to fill", || !world.processes_with("tr\0").is_empty()).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!flag.exists());
        let ended = Ended::of(command).await;
        assert_eq!(ended.stdout.len(), 2_000_000);
        assert!(flag.exists());
    });
}

pub(crate) fn dropping_a_command_ends_all_of_it(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world.start(shell("setsid sleep 4444.1 & sleep 4444.2")).await.unwrap();
        // The shell's own command line holds both numbers, so the daemon is told by its program.
        World::wait_for("both to run", || {
            !world.processes_with("sleep\x004444.1").is_empty() && !world.processes_with("sleep\x004444.2").is_empty()
        })
        .await;
        drop(command);
        world.wait_until_gone("4444.1").await;
        world.wait_until_gone("4444.2").await;
    });
}

pub(crate) fn stopping_ends_running_commands_and_refuses_new_ones(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world.start(ExecSpec::new(["sleep", "4545"])).await.unwrap();
        world.stop().await;
        let ended = Ended::of(command).await;
        assert_eq!(ended.status.signal, Some(9));
        assert_eq!(world.start(ExecSpec::new(["true"])).await.unwrap_err().code(), ErrorCode::InvalidState);
        world.stop().await;
    });
}

pub(crate) fn the_number_of_open_files_is_limited_when_asked(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = shell("ulimit -n");
        spec.resources.open_files = Some(64);
        assert_eq!(world.finish(spec).await.stdout, "64\n");
    });
}

pub(crate) fn what_cannot_be_kept_is_refused_and_named(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let runtime = world.runtime();
        assert_eq!(runtime.kind(), RuntimeKind::None);
        assert!(runtime.isolation().starts_with("none"), "{}", runtime.isolation());
        runtime.admit(&Resources::default(), None).unwrap();
        runtime.admit(&Resources { open_files: Some(10), ..Resources::default() }, Some(NetworkAccess::Full)).unwrap();
        let network = runtime.admit(&Resources::default(), Some(NetworkAccess::None)).unwrap_err();
        assert_eq!((network.code(), network.field()), (ErrorCode::InvalidArgument, Some("network")));
        let cpus = runtime.admit(&Resources { cpus: Some(1.0), ..Resources::default() }, None).unwrap_err();
        assert_eq!(cpus.field(), Some("resources.cpus"));
    });
}

pub(crate) fn a_new_host_ends_what_an_earlier_one_of_its_name_left_running(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.finish(shell("setsid sleep 4646.1 &")).await;
        World::wait_for("the daemon to run", || world.processes_with("sleep\x004646.1").len() == 1).await;
        // As after a crash: the first runtime has not been told to stop.
        let again = world.open_runtime_again().await;
        assert!(world.processes_with("4646.1").is_empty());
        drop(again);
    });
}
