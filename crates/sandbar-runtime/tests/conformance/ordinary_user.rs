//! Runtimes on an unprivileged host.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
    time::Duration,
};

use sandbar_core::{NetworkPolicy, Resources, RuntimeKind, SessionId, UserAccount};
use sandbar_runtime::{BoxNetwork, ExecSpec, Runtime, SandboxSpec, TerminalSize, Trust};

use crate::{
    dial::{Server, connect, talk},
    listeners::assert_listeners_work,
    test_box::{Ended, TestBox},
    trees::{Tree, Trees},
    world::{World, fresh_name, open_runtime, shell},
};

const USER: u32 = 12345;

/// Runs this test again as an ordinary user, in a root of that user's. Copies of the programs are
/// needed because an ordinary user cannot reach where they were built.
fn again_as_user(test: &str) {
    let trees = Trees::new(&fresh_name());
    let own = std::env::current_exe().unwrap();
    let stand_in = own
        .ancestors()
        .map(|place| place.join("sandbar-box"))
        .find(|path| path.is_file())
        .unwrap();
    let programs = trees.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for program in [&own, &stand_in] {
        let copy = programs.join(program.file_name().unwrap());
        fs::copy(program, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let tree = trees.plant(None);
    tree.give_to(USER);
    // Anywhere must do, also where a box is put together.
    let place = Path::new("/tmp");
    rustix::mount::mount_bind_recursive(&tree.path, place).unwrap();
    let output = Command::new(programs.join(own.file_name().unwrap()))
        .args(["--exact", &format!("ordinary_user::{test}"), "--nocapture"])
        .current_dir(place)
        .uid(USER)
        .gid(USER)
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

/// Runs a test on a box over the working directory.
fn in_a_box(kind: RuntimeKind, test: impl AsyncFnOnce(&dyn Runtime, &TestBox)) {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        let name = fresh_name();
        let runtime = open_runtime(kind, &name);
        let session = SessionId::new("one").unwrap();
        let tree = Tree::at(std::env::current_dir().unwrap());
        let owners = runtime.owners().unwrap();
        assert!(owners.is_none(), "an ordinary user has one owner to give");
        let limits = Resources::default();
        let spec = SandboxSpec {
            skip_pids: 0,
            rights: sandbar_core::RootRights::Bare,
            session: &session,
            root: &tree.path,
            owners,
            resources: &limits,
            default_memory: None,
            network: BoxNetwork::Closed,
            trust: Some(&Trust {
                authority: "the authority\n".into(),
                bundle: "all\n".into(),
            }),
        };
        let sandbox = runtime.open_sandbox(&spec).unwrap();
        let test_box = TestBox::new(kind, sandbox, tree);
        test(&*runtime, &test_box).await;
        test_box.stop().await;
    });
    tokio.shutdown_background();
}

/// Commands, streams, terminals, time-outs and connections work as for root.
async fn assert_commands_work(test_box: &TestBox) {
    let ended = test_box
        .finish(shell("pwd; echo to-err >&2; echo x > made; exit 7"))
        .await;
    assert_eq!(
        (ended.stderr.as_str(), ended.status.code),
        ("to-err\n", Some(7))
    );
    assert!(test_box.path_inside("workspace/made").exists());
    let mut spec = shell("stty size <&1");
    spec.terminal = Some(TerminalSize {
        rows: 12,
        columns: 34,
    });
    assert_eq!(test_box.finish(spec).await.stdout, "12 34\r\n");
    let mut spec = ExecSpec::new(["sleep", "1000"]);
    spec.resources.wall_time = Some(Duration::from_millis(50));
    assert!(test_box.finish(spec).await.status.timed_out);
    let error = test_box
        .start(ExecSpec::new(["no-such-program"]))
        .await
        .unwrap_err();
    assert_eq!(error.field(), Some("argv"));
    let server = Server::echo(test_box).await;
    talk(&mut connect(test_box, server.port).await, "hello").await;
}

/// Root is the only user, and can be requested by name.
async fn assert_only_root_is_there(runtime: &dyn Runtime, test_box: &TestBox) {
    let as_user = async |user: &str| {
        test_box
            .start_as(shell("id -u"), UserAccount::find(user, "", "").unwrap())
            .await
    };
    let reason = runtime
        .facts()
        .users
        .reason()
        .expect("other users")
        .to_owned();
    let error = as_user("1000").await.unwrap_err();
    assert!(
        error.field() == Some("user") && error.message().contains(&reason),
        "{error}"
    );
    let expected = if runtime.kind() == RuntimeKind::None {
        format!("{USER}\n")
    } else {
        "0\n".to_owned()
    };
    assert_eq!(
        Ended::of(as_user("root").await.unwrap()).await.stdout,
        expected
    );
}

/// Without cgroups, unsupported limits are reported and rejected.
fn assert_says_what_is_missing(runtime: &dyn Runtime) {
    let isolation = runtime.isolation();
    assert!(
        isolation.contains("not limited") && isolation.contains("nothing can be frozen"),
        "{isolation}"
    );
    assert!(runtime.facts().pause.reason().is_some() && runtime.facts().limits.reason().is_some());
    let pids = Resources {
        pids: Some(5),
        ..Resources::default()
    };
    assert_eq!(
        runtime.admit(&pids, None).unwrap_err().field(),
        Some("resources.pids")
    );
}

#[test]
fn native_box_of_unprivileged_host_is_isolated() {
    if rustix::process::geteuid().is_root() {
        return again_as_user("native_box_of_unprivileged_host_is_isolated");
    }
    in_a_box(RuntimeKind::Native, async |runtime, test_box| {
        assert!(
            runtime.isolation().contains("the caller as the only user"),
            "{}",
            runtime.isolation()
        );
        assert_says_what_is_missing(runtime);
        assert_commands_work(test_box).await;
        assert_only_root_is_there(runtime, test_box).await;
        let script = "id -u; cat /proc/self/uid_map; grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status; \
                      echo /proc/[0-9]*; uname -n; pwd; ls /";
        let seen = test_box.finish(shell(script)).await.stdout;
        let words: Vec<&str> = seen.split_whitespace().collect();
        let zero = "0000000000000000";
        let expected = [
            "0", "0", "12345", "1", "CapPrm:", zero, "CapEff:", zero, "CapBnd:", zero,
        ];
        assert_eq!(words[..10], expected);
        assert_eq!(
            words[10..15],
            ["NoNewPrivs:", "1", "Seccomp:", "2", "/proc/1"]
        );
        let root = [
            "one",
            "/workspace",
            "bin",
            "dev",
            "lib",
            "lib64",
            "proc",
            "sbin",
            "tmp",
            "usr",
            "var",
            "workspace",
        ];
        assert_eq!(words[words.len() - root.len()..], root);
        let ended = test_box
            .finish(shell(
                "mount -t tmpfs none /tmp || unshare --user true || touch /dev/new",
            ))
            .await;
        assert_ne!(ended.status.code, Some(0));
        let shown = test_box
            .finish(shell("cat /dev/sandbar/*; touch /dev/sandbar/new"))
            .await;
        assert_eq!(
            (shown.stdout.as_str(), shown.status.code),
            ("the authority\nall\n", Some(1))
        );
        assert!(runtime.network().is_yes(), "{:?}", runtime.network());
        runtime
            .admit(&Resources::default(), Some(&NetworkPolicy::full()))
            .unwrap();
        assert_listeners_work(test_box).await;
    });
}

#[test]
fn unisolated_commands_of_unprivileged_host_use_host_files() {
    if rustix::process::geteuid().is_root() {
        return again_as_user("unisolated_commands_of_unprivileged_host_use_host_files");
    }
    in_a_box(RuntimeKind::None, async |runtime, test_box| {
        assert!(
            runtime.isolation().contains("on the host's own files"),
            "{}",
            runtime.isolation()
        );
        assert_says_what_is_missing(runtime);
        runtime
            .admit(&Resources::default(), Some(&NetworkPolicy::full()))
            .unwrap();
        assert_commands_work(test_box).await;
        assert_only_root_is_there(runtime, test_box).await;
        let here = std::env::current_dir().unwrap().join("workspace");
        let seen = test_box.finish(shell("pwd; id -u")).await.stdout;
        assert_eq!(seen, format!("{}\n{USER}\n", here.display()));
        // A working directory cannot lead out of the session.
        std::os::unix::fs::symlink("/../../..", here.join("out")).unwrap();
        let spec = ExecSpec {
            cwd: Some("out".into()),
            ..ExecSpec::new(["pwd", "-P"])
        };
        assert_eq!(
            Path::new(test_box.finish(spec).await.stdout.trim()),
            here.parent().unwrap()
        );
    });
}

#[test]
fn gvisor_box_of_unprivileged_host_has_its_own_kernel() {
    if rustix::process::geteuid().is_root() {
        return again_as_user("gvisor_box_of_unprivileged_host_has_its_own_kernel");
    }
    in_a_box(RuntimeKind::Gvisor, async |runtime, test_box| {
        assert_commands_work(test_box).await;
        assert_only_root_is_there(runtime, test_box).await;
        assert!(
            runtime.isolation().contains("not limited"),
            "{}",
            runtime.isolation()
        );
        assert!(runtime.facts().limits.reason().is_some());
        let reason = runtime.network().reason().expect("no network").to_owned();
        let error = runtime
            .admit(&Resources::default(), Some(&NetworkPolicy::full()))
            .unwrap_err();
        assert!(
            error.field() == Some("network") && error.message().contains(&reason),
            "{error}"
        );
        let written = test_box.path_inside("workspace/count");
        test_box
            .finish(shell(
                "setsid sh -c 'while :; do echo >> count; done' >/dev/null 2>&1 &",
            ))
            .await;
        let size = || fs::metadata(&written).map_or(0, |count| count.len());
        World::wait_for("the count to begin", async || size() > 0).await;
        // Without cgroups, `runsc` freezes the container.
        test_box.freeze().await;
        let then = size();
        assert!(test_box.stats().await.processes.is_none());
        assert_eq!(size(), then);
        test_box.thaw().await;
        World::wait_for("the count to go on", async || size() > then).await;
    });
}
