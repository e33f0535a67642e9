//! Exit of commands, and failed starts.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

use bytes::Bytes;
use sandbar_core::{ErrorCode, RuntimeKind};
use sandbar_runtime::{ExecEvent, ExecSpec};

use crate::{
    test_box::{Ended, TestBox},
    world::{World, shell},
};

pub(crate) fn every_exit_code_is_reported(kind: RuntimeKind) {
    World::run(kind, async |world| {
        for code in 0..=255 {
            let status = world.finish(shell(&format!("exit {code}"))).await.status;
            assert_eq!((status.code, status.signal), (Some(code), None));
        }
    });
}

pub(crate) fn fatal_signal_is_reported(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // HUP, INT, QUIT, ABRT, KILL, USR1, SEGV, PIPE, ALRM, TERM
        for signal in [1, 2, 3, 6, 9, 10, 11, 13, 14, 15] {
            let status = world
                .finish(shell(&format!("ulimit -c 0; kill -{signal} $$")))
                .await
                .status;
            assert_eq!((status.code, status.signal), (None, Some(signal)));
        }
    });
}

pub(crate) fn signal_reaches_the_process_group(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "trap 'echo caught; exit 3' INT; sleep 4141.1 & echo ready; wait";
        let mut command = world.start(shell(script)).await.unwrap();
        assert_eq!(
            command.next_event().await,
            Some(ExecEvent::Stdout(Bytes::from_static(b"ready\n")))
        );
        assert_eq!(command.signal(9999).unwrap_err().field(), Some("signal"));
        command.signal(2).unwrap();
        let ended = Ended::of(command).await;
        assert_eq!(
            (ended.stdout.as_str(), ended.status.code),
            ("caught\n", Some(3))
        );

        // Not only its leader.
        let command = world
            .start(shell("sleep 4141.2; echo interrupted"))
            .await
            .unwrap();
        world.wait_until_runs("sleep\x004141.2").await;
        command.signal(15).unwrap();
        assert_eq!(Ended::of(command).await.status.signal, Some(15));
        world.wait_until_gone("4141.2").await;
    });
}

pub(crate) fn signal_to_ended_command_is_not_found(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut command = world.start(ExecSpec::new(["true"])).await.unwrap();
        while command.next_event().await.is_some() {}
        assert_eq!(
            command.signal(15).unwrap_err().code(),
            ErrorCode::ProcessNotFound
        );
    });
}

/// Starting it must fail with this code naming `argv`.
async fn refused(test_box: &TestBox, spec: ExecSpec, code: ErrorCode) {
    let error = test_box.start(spec).await.unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (code, Some("argv")),
        "{error:?}"
    );
    assert!(error.hint().is_some());
}

fn put(test_box: &TestBox, name: &str, content: &str, mode: u32) {
    let path = test_box.path_inside("workspace").join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn missing_program_is_not_found(kind: RuntimeKind) {
    World::run(kind, async |world| {
        put(world, "orphan", "#!/no/such/interpreter\n", 0o755);
        for program in [
            "no-such-program",
            "/no/such/program",
            "./orphan",
            "/workspace/orphan/below",
        ] {
            refused(world, ExecSpec::new([program]), ErrorCode::FileNotFound).await;
        }
    });
}

pub(crate) fn file_without_program_is_not_executable(kind: RuntimeKind) {
    World::run(kind, async |world| {
        put(world, "plain", "hello", 0o644);
        for program in ["./plain", "/workspace", "/workspace/."] {
            refused(world, ExecSpec::new([program]), ErrorCode::InvalidArgument).await;
        }
        refused(
            world,
            ExecSpec::new(Vec::<String>::new()),
            ErrorCode::InvalidArgument,
        )
        .await;
        refused(world, ExecSpec::new([""]), ErrorCode::InvalidArgument).await;
        refused(world, ExecSpec::new(["a\0b"]), ErrorCode::InvalidArgument).await;
    });
}

pub(crate) fn too_long_arguments_are_rejected_without_side_effect(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let running = world
            .start(ExecSpec::new(["sleep", "4141.3"]))
            .await
            .unwrap();
        // One argument beyond what the kernel takes, many that are too much together, and more than
        // any frame holds.
        for (length, count) in [(200_000, 1), (100_000, 80), (100_000, 200)] {
            let arguments = vec!["x".repeat(length); count];
            let argv = std::iter::once("true".to_owned()).chain(arguments);
            refused(world, ExecSpec::new(argv), ErrorCode::InvalidArgument).await;
        }
        let mut spec = ExecSpec::new(["true"]);
        spec.env = BTreeMap::from([("LONG".to_owned(), "x".repeat(200_000))]);
        refused(world, spec, ErrorCode::InvalidArgument).await;
        let long_but_fine = ExecSpec::new([
            "sh".to_owned(),
            "-c".into(),
            "echo ${#1}".into(),
            "x".into(),
            "y".repeat(100_000),
        ]);
        assert_eq!(world.finish(long_but_fine).await.stdout, "100000\n");
        running.kill();
        assert_eq!(Ended::of(running).await.status.signal, Some(9));
    });
}

pub(crate) fn program_is_searched_in_session_and_script_runs_by_shell(kind: RuntimeKind) {
    World::run(kind, async |world| {
        put(world, "greet", "echo hello $1\n", 0o755);
        fs::create_dir(world.path_inside("workspace/closed")).unwrap();
        put(world, "closed/greet", "echo wrong\n", 0o644);
        let mut spec = ExecSpec::new(["greet", "you"]);
        // What may not be executed does not end the search.
        spec.env = BTreeMap::from([(
            "PATH".into(),
            "/workspace/closed:/none:/workspace:/bin".into(),
        )]);
        assert_eq!(world.finish(spec.clone()).await.stdout, "hello you\n");
        spec.env = BTreeMap::from([("PATH".into(), "/workspace/closed:/bin".into())]);
        refused(world, spec, ErrorCode::InvalidArgument).await;
    });
}

pub(crate) fn command_that_failed_to_start_leaves_nothing(kind: RuntimeKind) {
    World::run(kind, async |world| {
        for _ in 0..20 {
            world
                .start(ExecSpec::new(["no-such-program"]))
                .await
                .unwrap_err();
        }
        World::wait_for("the box to be empty", async || {
            world.stats().await.processes == Some(0)
        })
        .await;
    });
}
