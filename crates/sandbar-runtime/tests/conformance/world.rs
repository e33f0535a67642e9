//! A runtime for one test, and a box in it.

use std::{ops::Deref, path::Path, sync::Arc, time::Duration};

use sandbar_core::{ByteCount, Resources, Result, RootRights, RuntimeKind, SessionId};
use sandbar_runtime::{
    BoxNetwork, ExecSpec, GvisorRuntime, GvisorSettings, NativeRuntime, NoneRuntime, Runtime,
    SandboxSpec, Trust,
};

use crate::{
    test_box::TestBox,
    trees::{Tree, Trees},
};

/// Timeout of a test. A test that hangs fails, and cleans up.
const TEST_TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) fn shell(script: &str) -> ExecSpec {
    ExecSpec::new(["sh", "-c", script])
}

pub(crate) fn open_runtime(kind: RuntimeKind, name: &str) -> Arc<dyn Runtime> {
    match kind {
        RuntimeKind::None => Arc::new(NoneRuntime::open(name).unwrap()),
        RuntimeKind::Native => Arc::new(NativeRuntime::open(name).unwrap()),
        RuntimeKind::Gvisor => {
            let settings = GvisorSettings::new(
                name,
                std::env::temp_dir().join(format!("{name}-containers")),
            );
            Arc::new(GvisorRuntime::open(&settings).unwrap())
        }
    }
}

/// Opens a runtime with prepared boxes where the runtime supports them. The first boxes opened are
/// prepared ones; later ones may not be.
fn open_warm_runtime(kind: RuntimeKind, name: &str) -> Arc<dyn Runtime> {
    if kind != RuntimeKind::Native {
        return open_runtime(kind, name);
    }
    let runtime = NativeRuntime::open(name).unwrap();
    runtime.warm_up();
    Arc::new(runtime)
}

/// Returns a unique host name.
pub(crate) fn fresh_name() -> String {
    format!("sandbar-test-{}", SessionId::random())
}

/// Owners of the files of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    Leased,
    /// Owners of a file system without idmapped mounts.
    AsOnDisk,
}

/// A runtime and its first box. Dereferences to the box.
#[derive(Debug)]
pub(crate) struct World {
    first: TestBox,
    runtime: Arc<dyn Runtime>,
    name: String,
    trees: Trees,
}

impl Deref for World {
    type Target = TestBox;

    fn deref(&self) -> &TestBox {
        &self.first
    }
}

impl World {
    pub(crate) fn run(kind: RuntimeKind, test: impl AsyncFnOnce(&World)) {
        Self::run_limited(kind, &Resources::default(), test);
    }

    /// The limits are those of the first box.
    pub(crate) fn run_limited(
        kind: RuntimeKind,
        limits: &Resources,
        test: impl AsyncFnOnce(&World),
    ) {
        Self::run_named(kind, &fresh_name(), limits, test);
    }

    /// Runs a test in a mount namespace of its own; every mount goes away with the test's threads.
    pub(crate) fn run_named(
        kind: RuntimeKind,
        name: &str,
        limits: &Resources,
        test: impl AsyncFnOnce(&World),
    ) {
        let trees = Trees::new(name);
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        tokio.block_on(async {
            let runtime = open_warm_runtime(kind, name);
            let first = open_box(&*runtime, &trees, "one", limits, Owners::Leased);
            let world = World {
                first,
                runtime,
                name: name.to_owned(),
                trees,
            };
            tokio::time::timeout(TEST_TIMEOUT, test(&world))
                .await
                .unwrap_or_else(|_| panic!("the test hangs"));
            world.stop().await;
        });
        tokio.shutdown_background();
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens another box with its own root.
    pub(crate) fn open_box(&self, session: &str, limits: &Resources) -> TestBox {
        self.open_box_with(session, limits, Owners::Leased)
    }

    /// Opens another box without limits of its own, under the default memory limit of its host.
    pub(crate) fn open_box_with_default(&self, session: &str, memory: ByteCount) -> TestBox {
        let owners = self.runtime.owners().unwrap();
        let tree = self.trees.plant(owners.as_deref());
        let spec = SandboxSpec {
            skip_pids: 0,
            session: &SessionId::new(session).unwrap(),
            root: &tree.path,
            owners,
            resources: &Resources::default(),
            default_memory: Some(memory),
            network: BoxNetwork::Closed,
            trust: None,
            rights: RootRights::Bare,
        };
        let sandbox = self.runtime.open_sandbox(&spec).unwrap();
        TestBox::new(self.runtime.kind(), sandbox, tree)
    }

    pub(crate) fn open_box_with(
        &self,
        session: &str,
        limits: &Resources,
        owners: Owners,
    ) -> TestBox {
        open_box(&*self.runtime, &self.trees, session, limits, owners)
    }

    /// Opens another box with the given `RootRights`.
    pub(crate) fn open_box_with_rights(
        &self,
        session: &str,
        owners: Owners,
        rights: RootRights,
    ) -> Result<TestBox> {
        try_open_box(
            &*self.runtime,
            &self.trees,
            session,
            &Resources::default(),
            owners,
            rights,
        )
    }

    /// Opens another box whose network can be opened.
    pub(crate) fn open_egress_box(&self, session: &str) -> TestBox {
        self.open_egress_box_with(session, None, |_| ())
    }

    /// Opens another box after `plant` has prepared its root.
    pub(crate) fn open_egress_box_with(
        &self,
        session: &str,
        trust: Option<&Trust>,
        plant: impl FnOnce(&Tree),
    ) -> TestBox {
        let owners = self.runtime.owners().unwrap();
        let tree = self.trees.plant(owners.as_deref());
        plant(&tree);
        let spec = SandboxSpec {
            skip_pids: 0,
            session: &SessionId::new(session).unwrap(),
            root: &tree.path,
            owners,
            resources: &Resources::default(),
            default_memory: None,
            network: BoxNetwork::Egress,
            trust,
            rights: RootRights::Bare,
        };
        let sandbox = self.runtime.open_sandbox(&spec).unwrap();
        TestBox::new(self.runtime.kind(), sandbox, tree)
    }

    /// Starts a box from a checkpoint over the root of the first one.
    pub(crate) async fn restore_box(&self, image: &Path) -> Result<TestBox> {
        let (runtime, image) = (Arc::clone(&self.runtime), image.to_owned());
        let tree = Tree::at(self.first.mounted().to_owned());
        let restoring = move || {
            let (session, limits) = (SessionId::new("one").unwrap(), Resources::default());
            let spec = SandboxSpec {
                skip_pids: 0,
                session: &session,
                root: &tree.path,
                owners: None,
                resources: &limits,
                default_memory: None,
                network: BoxNetwork::Closed,
                trust: None,
                rights: RootRights::Bare,
            };
            let sandbox = runtime.restore_sandbox(&spec, &image)?;
            Ok(TestBox::new(runtime.kind(), sandbox, tree))
        };
        tokio::task::spawn_blocking(restoring).await.unwrap()
    }

    /// Returns an unused root.
    pub(crate) fn plant(&self) -> Tree {
        self.trees.plant(None)
    }

    /// Returns as soon as the condition holds.
    pub(crate) async fn wait_for(what: &str, mut condition: impl AsyncFnMut() -> bool) {
        let waiting = async {
            while !condition().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), waiting)
            .await
            .unwrap_or_else(|_| panic!("timed out waiting for: {what}"));
    }
}

pub(crate) fn open_box(
    runtime: &dyn Runtime,
    trees: &Trees,
    session: &str,
    limits: &Resources,
    owners: Owners,
) -> TestBox {
    try_open_box(runtime, trees, session, limits, owners, RootRights::Bare).unwrap()
}

fn try_open_box(
    runtime: &dyn Runtime,
    trees: &Trees,
    session: &str,
    limits: &Resources,
    owners: Owners,
    rights: RootRights,
) -> Result<TestBox> {
    let session = SessionId::new(session).unwrap();
    let owners = if owners == Owners::Leased {
        runtime.owners().unwrap()
    } else {
        None
    };
    let tree = trees.plant(owners.as_deref());
    let spec = SandboxSpec {
        skip_pids: 0,
        session: &session,
        root: &tree.path,
        owners,
        resources: limits,
        default_memory: None,
        network: BoxNetwork::Closed,
        trust: None,
        rights,
    };
    let sandbox = runtime.open_sandbox(&spec)?;
    Ok(TestBox::new(runtime.kind(), sandbox, tree))
}
