//! A mounted volume with tools on it, and a secret beside it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use sandbar_core::{Error, ExecSpec, OwnerMap, Resources, Result, ToolResponse};
use sandbar_runtime::RunningCommand;
use sandbar_testing::{Backend, StorageFixture};
use sandbar_tools::{CommandRunner, PreparedCall, ToolContext};
use sandbar_tree::SessionTree;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) const SECRET: &str = "the secret of the host";

pub(crate) struct Volume {
    fixture: StorageFixture,
    root: PathBuf,
    tokio: tokio::runtime::Runtime,
}

#[derive(Debug)]
struct NoRunner;

impl CommandRunner for NoRunner {
    fn start(&self, _: ExecSpec) -> BoxFuture<'_, Result<RunningCommand>> {
        Box::pin(async { Err(Error::internal("there is no sandbox here")) })
    }
}

impl Volume {
    pub(crate) fn new(backend: Backend) -> Self {
        let fixture = StorageFixture::new(backend);
        let volume = fixture.volume("s");
        let root = fixture.storage.mount(&volume).unwrap();
        // After the fixture: threads started now are in its mount namespace.
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let volume = Self {
            fixture,
            root,
            tokio,
        };
        std::fs::write(volume.secret(), SECRET).unwrap();
        volume
    }

    /// A file of the host's.
    pub(crate) fn secret(&self) -> PathBuf {
        self.fixture.scratch().join("secret")
    }

    /// The root of the volume.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path in `/workspace`, as this process sees it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join("workspace").join(name)
    }

    pub(crate) fn run(&self, tool: &str, params: Value) -> ToolResponse {
        self.run_as(None, tool, params)
    }

    pub(crate) fn run_as(
        &self,
        owners: Option<Arc<OwnerMap>>,
        tool: &str,
        params: Value,
    ) -> ToolResponse {
        let Value::Object(params) = params else {
            panic!("parameters are an object")
        };
        let (progress, mut told) = mpsc::channel(1);
        let context = ToolContext {
            tree: SessionTree::open(&self.root, owners).unwrap(),
            runner: Arc::new(NoRunner),
            walks: None,
            resources: Resources::default(),
            time_limit: Duration::from_mins(1),
            progress,
            cancelled: CancellationToken::new(),
            shell: Arc::default(),
        };
        self.tokio.block_on(async {
            tokio::spawn(async move { while told.recv().await.is_some() {} });
            PreparedCall::new(tool, params)
                .unwrap()
                .run(&context)
                .await
                .unwrap()
        })
    }

    /// The secret is what it was, and nothing lies beside it that was not there.
    pub(crate) fn assert_untouched(&self) {
        assert_eq!(std::fs::read_to_string(self.secret()).unwrap(), SECRET);
    }
}
