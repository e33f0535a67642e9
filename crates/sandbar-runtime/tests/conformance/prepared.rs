//! Pool of prepared native boxes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::process::{Pid, Signal, kill_process};
use sandbar_core::{ByteCount, Resources};
use sandbar_runtime::{ExecSpec, NativeRuntime, Runtime};

use crate::{
    limits::PARENT,
    test_box::{TestBox, processes_in},
    trees::Trees,
    world::{Owners, World, fresh_name, open_box, shell},
};

/// Size of the pool.
const WAITING: usize = 2;

/// A runtime, and boxes in it that are asked for when the test says so.
struct Host {
    runtime: Arc<NativeRuntime>,
    name: String,
    trees: Trees,
}

impl Host {
    fn run(test: impl AsyncFnOnce(&Host)) {
        let name = fresh_name();
        let trees = Trees::new(&name);
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        tokio.block_on(async {
            let runtime = Arc::new(NativeRuntime::open(&name).unwrap());
            test(&Host {
                runtime,
                name,
                trees,
            })
            .await;
        });
        tokio.shutdown_background();
    }

    /// The first processes of all boxes, those that wait too.
    fn inits(&self) -> Vec<u32> {
        let mut found = processes_in(&format!("/{}/box-", self.name));
        found.retain(|pid| !belongs_to_a_command(*pid));
        found
    }

    fn open_box(&self, limits: &Resources, owners: Owners) -> TestBox {
        open_box(&*self.runtime, &self.trees, "one", limits, owners)
    }

    /// Fills the store, takes a box and insists that it was there before.
    async fn take_box(&self, limits: &Resources, owners: Owners) -> TestBox {
        self.runtime.warm_up();
        let before = self.inits();
        let taken = self.open_box(limits, owners);
        assert_eq!(
            taken.finish(ExecSpec::new(["echo", "here"])).await.stdout,
            "here\n"
        );
        let init = taken.init_on_host();
        assert!(
            init.len() == 1 && before.contains(&init[0]),
            "{init:?} was not there: {before:?}"
        );
        taken
    }

    async fn close(&self) {
        let runtime = Arc::clone(&self.runtime);
        tokio::task::spawn_blocking(move || runtime.close())
            .await
            .unwrap()
            .unwrap();
    }
}

fn belongs_to_a_command(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains("/exec-"))
}

/// Stops a box and gives back what it was made of.
async fn give_back(test_box: TestBox) {
    test_box.stop().await;
    tokio::task::spawn_blocking(move || drop(test_box))
        .await
        .unwrap();
}

#[test]
fn pool_is_filled_after_the_first_session() {
    Host::run(async |host| {
        assert_eq!(host.inits(), Vec::<u32>::new());
        let first = host.open_box(&Resources::default(), Owners::Leased);
        assert_eq!(
            first.finish(ExecSpec::new(["echo", "here"])).await.stdout,
            "here\n"
        );
        World::wait_for("boxes to wait", async || host.inits().len() == 1 + WAITING).await;
        let second = host.take_box(&Resources::default(), Owners::Leased).await;
        World::wait_for("another to wait", async || {
            host.inits().len() == 2 + WAITING
        })
        .await;
        for test_box in [first, second] {
            give_back(test_box).await;
        }
        assert_eq!(host.inits().len(), WAITING);
        host.close().await;
    });
}

/// Asserts that the limits apply: the number of children a command can start, of forty, and whether
/// one can allocate 300 MiB.
async fn assert_limits(test_box: &TestBox, limits: &Resources) {
    let figures = test_box.stats().await;
    assert_eq!(
        (figures.oom_kills, figures.refused_forks),
        (Some(0), Some(0))
    );
    let children = limits.pids.map_or(40, |pids| pids - 1);
    assert_eq!(
        test_box
            .finish(ExecSpec::new(["perl", "-e", PARENT]))
            .await
            .stdout,
        children.to_string()
    );
    let hog = shell("exec dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null");
    assert_eq!(
        test_box.finish(hog).await.status.oom_killed,
        limits.memory.is_some()
    );
}

#[test]
fn prepared_box_suits_any_session() {
    let none = Resources::default();
    let tight = Resources {
        pids: Some(5),
        memory: Some(ByteCount::mib(64)),
        cpus: Some(0.9),
        ..none.clone()
    };
    Host::run(async |host| {
        // More often than boxes wait, so that each kind comes after each.
        for limits in [&tight, &none, &none, &tight, &tight, &none] {
            for owners in [Owners::Leased, Owners::AsOnDisk] {
                let taken = host.take_box(limits, owners).await;
                assert_limits(&taken, limits).await;
                let told = taken
                    .finish(shell(
                        "id -u; hostname; touch mine; cat /proc/keys /proc/kmsg",
                    ))
                    .await;
                assert_eq!(told.stdout, "0\none\n", "{}", told.stderr);
                // What is root's alone is covered where root in the box is root on disk.
                assert_eq!(
                    told.stderr.contains("Permission denied"),
                    owners == Owners::Leased
                );
                let file = taken.path_inside("workspace/mine");
                assert_eq!(
                    std::os::unix::fs::MetadataExt::uid(&fs::metadata(file).unwrap()),
                    0
                );
                give_back(taken).await;
            }
        }
        host.close().await;
    });
}

#[test]
fn killed_prepared_box_is_not_used() {
    Host::run(async |host| {
        host.runtime.warm_up();
        let killed = host.inits();
        assert_eq!(killed.len(), WAITING);
        for pid in &killed {
            kill_process(
                Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap(),
                Signal::KILL,
            )
            .unwrap();
        }
        let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        World::wait_for("them to be gone", async || !killed.iter().any(is_there)).await;
        let first = host.open_box(&Resources::default(), Owners::Leased);
        assert_eq!(
            first.finish(ExecSpec::new(["echo", "here"])).await.stdout,
            "here\n"
        );
        give_back(first).await;
        // They have been replaced.
        give_back(host.take_box(&Resources::default(), Owners::Leased).await).await;
        host.close().await;
    });
}

#[test]
fn closed_runtime_leaves_no_prepared_boxes_or_cgroups() {
    Host::run(async |host| {
        host.runtime.warm_up();
        assert_eq!(host.inits().len(), WAITING);
        assert!(!groups_named(&host.name).is_empty());
        host.close().await;
        assert_eq!(processes_in(&format!("/{}/", host.name)), Vec::<u32>::new());
        assert_eq!(groups_named(&host.name), Vec::<PathBuf>::new());
    });
}

/// In every hierarchy.
fn groups_named(name: &str) -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(top)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    hierarchies
        .chain([top.to_owned()])
        .map(|place| place.join(name))
        .filter(|place| place.exists())
        .collect()
}
