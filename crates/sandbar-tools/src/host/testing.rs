//! A session's tree on plain files, and tools that work on it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use sandbar_core::{Error, ExecSpec, Resources, Result, ToolProgress, ToolResponse};
use sandbar_runtime::RunningCommand;
use sandbar_testing::tree::{Scratch, scratch};
use sandbar_tree::SessionTree;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{CommandRunner, PreparedCall, ToolContext};

/// A tree with an empty `/workspace`, and something outside of it.
pub(crate) struct Workbench {
    scratch: Scratch,
    pub(crate) time_limit: Duration,
    pub(crate) cancelled: CancellationToken,
}

#[derive(Debug)]
struct NoRunner;

impl CommandRunner for NoRunner {
    fn start(&self, _: ExecSpec) -> BoxFuture<'_, Result<RunningCommand>> {
        Box::pin(async { Err(Error::internal("there is no sandbox here")) })
    }
}

impl Workbench {
    pub(crate) fn new() -> Self {
        let scratch = scratch();
        std::fs::create_dir_all(scratch.path().join("root/workspace")).unwrap();
        Self {
            scratch,
            time_limit: Duration::from_mins(1),
            cancelled: CancellationToken::new(),
        }
    }

    /// A path in `/workspace`, as this process sees it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join("root/workspace").join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        self.write_bytes(name, content.as_bytes());
    }

    pub(crate) fn write_bytes(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the names in `/workspace`, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// A chain of directories, deeper than any path may be long.
    pub(crate) fn nest(&self, name: &str, depth: usize) {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
        let open = |directory: std::os::fd::BorrowedFd<'_>, name: &str| {
            mkdirat(directory, name, Mode::from_raw_mode(0o755)).unwrap();
            openat(
                directory,
                name,
                OFlags::RDONLY | OFlags::DIRECTORY,
                Mode::empty(),
            )
            .unwrap()
        };
        let mut directory = openat(
            CWD,
            self.path(""),
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        )
        .unwrap();
        directory = open(std::os::fd::AsFd::as_fd(&directory), name);
        for _ in 1..depth {
            directory = open(
                std::os::fd::AsFd::as_fd(&directory),
                "directory-with-a-name",
            );
        }
    }

    pub(crate) fn run(&self, tool: &str, params: Value) -> ToolResponse {
        self.run_with_progress(tool, params).0.unwrap()
    }

    pub(crate) fn run_with_progress(
        &self,
        tool: &str,
        params: Value,
    ) -> (Result<ToolResponse>, Vec<ToolProgress>) {
        let Value::Object(params) = params else {
            panic!("parameters are an object")
        };
        let call = PreparedCall::new(tool, params).unwrap();
        let (progress, mut told) = mpsc::channel(1);
        let context = ToolContext {
            tree: SessionTree::open(&self.scratch.path().join("root"), None).unwrap(),
            runner: Arc::new(NoRunner),
            walks: None,
            resources: Resources::default(),
            time_limit: self.time_limit,
            progress,
            cancelled: self.cancelled.clone(),
            shell: Arc::default(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let collecting = tokio::spawn(async move {
                let mut items = Vec::new();
                while let Some(item) = told.recv().await {
                    items.push(item);
                }
                items
            });
            let answer = call.run(&context).await;
            drop(context);
            (answer, collecting.await.unwrap())
        })
    }
}
