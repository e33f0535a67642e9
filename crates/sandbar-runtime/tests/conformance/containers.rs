//! Behaviour specific to gVisor containers.

use std::{fs, io::Write, os::unix::fs::symlink, path::PathBuf};

use sandbar_core::{ErrorCode, Resources, RuntimeKind, SessionId};
use sandbar_runtime::{
    BoxNetwork, ExecEvent, ExecSpec, GvisorRuntime, GvisorSettings, SandboxSpec, StdinMode,
};
use tokio::io::AsyncWriteExt;

use crate::{
    dial::{Server, connect, read_all, talk},
    test_box::{Ended, processes_in},
    world::{World, shell},
};

fn run(test: impl AsyncFnOnce(&World)) {
    World::run(RuntimeKind::Gvisor, test);
}

/// A directory for a checkpoint, with the names a checkpoint has.
struct Image {
    path: PathBuf,
}

impl Image {
    fn of(world: &World, number: u32) -> Self {
        Self {
            path: std::env::temp_dir().join(format!("{}-image-{number}", world.name())),
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        for name in ["checkpoint.img", "sandbox.json"] {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// Counts as fast as it can.
const COUNTER: &str = "while :; do echo >> count; done &";

fn count(world: &World) -> u64 {
    fs::metadata(world.path_inside("workspace/count")).map_or(0, |count| count.len())
}

#[test]
fn checkpoint_keeps_commands_running() {
    run(async |world| {
        world.finish(shell(COUNTER)).await;
        World::wait_for("the count to begin", async || count(world) > 10).await;
        let mut talking = world
            .start(ExecSpec {
                stdin: StdinMode::Piped,
                ..ExecSpec::new(["cat"])
            })
            .await
            .unwrap();
        let stdin = talking.stdin().unwrap();
        for round in 0..2 {
            stdin
                .write(format!("before {round}\n").into())
                .await
                .unwrap();
            assert_eq!(
                talking.next_event().await,
                Some(ExecEvent::Stdout(format!("before {round}\n").into()))
            );
            let image = Image::of(world, round);
            let counted = world.path_inside("workspace/count");
            let (tell, told) = std::sync::mpsc::channel();
            let meanwhile = move || {
                // Nothing runs, in repeated checks.
                let sizes: Vec<u64> = (0..100)
                    .map(|_| fs::metadata(&counted).unwrap().len())
                    .collect();
                tell.send(sizes.iter().all(|size| *size == sizes[0]))
                    .unwrap();
                Ok(())
            };
            world.checkpoint(&image.path, meanwhile).await.unwrap();
            assert!(told.recv().unwrap());
            let then = count(world);
            World::wait_for("the count to go on", async || count(world) > then + 10).await;
            stdin
                .write(format!("after {round}\n").into())
                .await
                .unwrap();
            assert_eq!(
                talking.next_event().await,
                Some(ExecEvent::Stdout(format!("after {round}\n").into()))
            );
            assert_eq!(world.finish(shell("echo new")).await.stdout, "new\n");
        }
        stdin.close();
        assert_eq!(Ended::of(talking).await.status.code, Some(0));
    });
}

#[test]
fn restored_sandbox_runs_the_checkpointed_processes() {
    run(async |world| {
        let image = Image::of(world, 0);
        world.finish(shell(COUNTER)).await;
        // It writes more than a pipe holds, before and after.
        world
            .finish(shell(
                "setsid sh -c 'while :; do head -c 8192 /dev/zero; echo >> ticks; done' & true",
            ))
            .await;
        World::wait_for("the count to begin", async || count(world) > 10).await;
        world.checkpoint(&image.path, || Ok(())).await.unwrap();
        world.stop().await;
        let then = count(world);
        let restored = world.restore_box(&image.path).await.unwrap();
        World::wait_for("the count to go on", async || count(world) > then).await;
        let ticks =
            || fs::metadata(world.path_inside("workspace/ticks")).map_or(0, |ticks| ticks.len());
        let before = ticks();
        World::wait_for("the writer to go on", async || ticks() > before + 30).await;
        assert_eq!(
            restored.finish(shell("echo here; hostname")).await.stdout,
            "here\none\n"
        );
        assert_eq!(restored.count("sleep\0").await, 0);
        restored.stop().await;
        assert!(restored.on_host().is_empty());
        fs::write(image.path.join("sandbox.json"), "{}").unwrap();
        assert!(world.restore_box(&image.path).await.is_err());
    });
}

#[test]
fn connection_survives_checkpoint_but_not_restore() {
    run(async |world| {
        let image = Image::of(world, 0);
        let server = Server::echo(world).await;
        let mut stream = connect(world, server.port).await;
        talk(&mut stream, "before").await;
        world.checkpoint(&image.path, || Ok(())).await.unwrap();
        talk(&mut stream, "after").await;
        talk(&mut connect(world, server.port).await, "anew").await;
        stream.shutdown().await.unwrap();
        assert!(read_all(&mut stream).await.is_empty());
        world.stop().await;
        let restored = world.restore_box(&image.path).await.unwrap();
        talk(&mut connect(&restored, server.port).await, "restored").await;
        // Only the listener is left: the process that served the connection has ended.
        World::wait_for("the connection to end", async || {
            restored.count("perl\0").await == 1
        })
        .await;
        restored.stop().await;
    });
}

#[test]
fn checkpoint_of_frozen_box_keeps_it_frozen() {
    run(async |world| {
        let image = Image::of(world, 0);
        world.finish(shell(COUNTER)).await;
        World::wait_for("the count to begin", async || count(world) > 10).await;
        world.freeze().await;
        world.checkpoint(&image.path, || Ok(())).await.unwrap();
        let (then, used) = (count(world), world.stats().await.cpu_time);
        assert_eq!((count(world), world.stats().await.cpu_time), (then, used));
        world.thaw().await;
        World::wait_for("the count to go on", async || count(world) > then + 10).await;
    });
}

#[test]
fn file_changes_are_visible_at_once_on_both_sides() {
    run(async |world| {
        let file = world.path_inside("workspace/file");
        for text in ["first", "second, and longer", "3"] {
            fs::write(&file, text).unwrap();
            assert_eq!(world.finish(shell("cat file")).await.stdout, text);
            world.finish(shell("echo inside > file")).await;
            assert_eq!(fs::read_to_string(&file).unwrap(), "inside\n");
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(
            world.finish(shell("test -e file")).await.status.code,
            Some(1)
        );
        // Also by a process that keeps it open.
        fs::write(&file, "begin\n").unwrap();
        let script =
            "exec 5< file; read line <&5; echo $line; read wait; read line <&5; echo $line";
        let mut command = world
            .start(ExecSpec {
                stdin: StdinMode::Piped,
                ..shell(script)
            })
            .await
            .unwrap();
        assert_eq!(
            command.next_event().await,
            Some(ExecEvent::Stdout("begin\n".into()))
        );
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(b"more\n")
            .unwrap();
        command.stdin().unwrap().write("go\n".into()).await.unwrap();
        assert_eq!(
            command.next_event().await,
            Some(ExecEvent::Stdout("more\n".into()))
        );
    });
}

#[test]
fn commands_cannot_reach_init_or_own_files_of_sandbar() {
    run(async |world| {
        let script = "kill -9 1 2>/dev/null || echo refused; echo /.sandbar* /proc/1/root/* /proc/1/cwd/*; \
                      unshare -U true 2>/dev/null || echo no namespaces; grep -c 'Cap.*0000000000000000' /proc/self/status";
        let expected = "refused\n/.sandbar* /proc/1/root/* /proc/1/cwd/*\nno namespaces\n4\n";
        assert_eq!(world.finish(shell(script)).await.stdout, expected);
        let ended = world
            .finish(shell("sleep 5252.1 & kill -9 -1; wait; echo done"))
            .await;
        assert_eq!(ended.stdout, "done\n");
        assert!(world.is_alive());
        assert_eq!(world.finish(shell("echo here")).await.stdout, "here\n");
    });
}

#[test]
fn tree_with_symlinks_cannot_redirect_container_mounts() {
    run(async |world| {
        let other = world.plant();
        symlink("/workspace", other.path.join("proc")).unwrap();
        let session = SessionId::new("two").unwrap();
        let limits = Resources::default();
        let spec = SandboxSpec {
            skip_pids: 0,
            rights: sandbar_core::RootRights::Bare,
            session: &session,
            root: &other.path,
            owners: None,
            resources: &limits,
            default_memory: None,
            network: BoxNetwork::Closed,
            trust: None,
        };
        let error = world.runtime().open_sandbox(&spec).unwrap_err();
        assert!(error.message().contains("assemble the root"), "{error}");
        assert!(
            fs::read_dir(other.path.join("workspace"))
                .unwrap()
                .next()
                .is_none()
        );
    });
}

#[test]
fn new_box_comes_from_the_pool_which_is_refilled() {
    run(async |world| {
        let group = format!("/{}/", world.name());
        let waiting = || {
            processes_in(&group)
                .iter()
                .filter(|&&pid| is_container(pid))
                .count()
        };
        for number in 0..3 {
            // The first box and one in the pool.
            World::wait_for("a container to wait", async || waiting() == 2).await;
            let test_box = world.open_box(&format!("box-{number}"), &Resources::default());
            assert_eq!(
                test_box.finish(shell("hostname")).await.stdout,
                format!("box-{number}\n")
            );
            test_box.stop().await;
        }
    });
}

/// Whether this is the kernel of a container.
fn is_container(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"runsc-sandbox"))
}

#[test]
fn missing_runsc_is_reported_with_a_hint() {
    let directory = std::env::temp_dir().join("sandbar-test-none");
    let settings = GvisorSettings {
        runsc: Some("/no/such/runsc".into()),
        ..GvisorSettings::new("sandbar-test-none", &directory)
    };
    let error = GvisorRuntime::open(&settings).unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::Unavailable, Some("container_runtime"))
    );
    assert!(error.message().contains("/no/such/runsc") && error.hint().is_some());
    assert!(!directory.exists());
}

#[test]
fn capabilities_of_gvisor_are_probed() {
    run(async |world| {
        let facts = world.runtime().facts();
        assert!(facts.pause.is_yes() && facts.limits.is_yes(), "{facts:?}");
        let (checkpoint, network) = (world.runtime().checkpoint(), world.runtime().network());
        assert!(
            checkpoint.is_yes() && network.is_yes(),
            "{checkpoint:?} {network:?}"
        );
        assert!(
            world
                .runtime()
                .isolation()
                .starts_with("gvisor: a kernel of its own")
        );
    });
}
