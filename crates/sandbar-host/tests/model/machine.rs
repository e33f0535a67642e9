//! A real host that can be restarted, and the storage below it.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use sandbar_core::{BaseName, RuntimeKind};
use sandbar_host::{Host, HostConfig, HostParts};
use sandbar_storage::{ImportSource, Storage};
use sandbar_testing::StorageFixture;

use crate::{
    host_config::host_config,
    model::{BARE, Rules, SEEDED, base_files},
    outcome::EntryView,
    shell::Action,
};

/// A host over a storage of its own.
pub(crate) struct Machine {
    host: Option<Arc<Host>>,
    config: HostConfig,
    /// The storage of the host, to inspect it directly.
    opened: Arc<Mutex<Option<Arc<dyn Storage>>>>,
    // Outlives the host: it holds the file system below.
    _fixture: StorageFixture,
}

/// Limits a host is set up with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub(crate) sessions: usize,
    pub(crate) snapshots: usize,
    pub(crate) tool_snapshots: bool,
}

impl Machine {
    /// A host with the bases the model knows.
    pub(crate) async fn start(
        fixture: StorageFixture,
        runtime: RuntimeKind,
        limits: Limits,
    ) -> Self {
        let config = limits.apply(host_config(&fixture, runtime));
        let trees = [SEEDED, BARE].map(|base| (base, fixture.scratch().join(base)));
        let mut machine = Self {
            host: None,
            config,
            opened: Arc::default(),
            _fixture: fixture,
        };
        machine.begin().await;
        for (base, tree) in trees {
            lay_base(&tree, base);
            let name = BaseName::new(base).unwrap();
            machine
                .host()
                .import_base(&name, &ImportSource::Directory(tree), |_| {})
                .await
                .unwrap();
        }
        machine
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        self.host.as_ref().unwrap()
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        self.opened.lock().unwrap().clone().unwrap()
    }

    /// Returns the properties of this host that the model needs.
    pub(crate) fn rules(&self) -> Rules {
        let capabilities = self.host().capabilities();
        Rules {
            max_sessions: self.config.max_sessions,
            max_snapshots: self.config.max_snapshots_per_session,
            tool_snapshots: self.config.per_tool_snapshots,
            can_pause: capabilities.pause.reason().is_none(),
            can_keep_later: capabilities.keep_later.reason().is_none(),
        }
    }

    /// Sets the host up anew where it has other limits.
    pub(crate) async fn limit(&mut self, limits: Limits) {
        let config = limits.apply(self.config.clone());
        if config != self.config {
            self.config = config;
            self.restart().await;
        }
    }

    /// Stops the host and starts another on the same data.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.begin().await;
    }

    pub(crate) async fn stop(&mut self) {
        // The old host releases its lock when it is dropped.
        let host = self.host.take().unwrap();
        host.shutdown().await.unwrap();
        self.opened.lock().unwrap().take();
    }

    async fn begin(&mut self) {
        let (storage, opened) = (self.config.storage(), Arc::clone(&self.opened));
        let parts = HostParts {
            open_storage: Box::new(move || {
                let storage = sandbar_storage::open(&storage)?;
                *opened.lock().unwrap() = Some(Arc::clone(&storage.storage));
                Ok(storage)
            }),
            wrap_runtime: Box::new(|runtime| runtime),
        };
        self.host = Some(Host::start_with(self.config.clone(), parts).await.unwrap());
    }
}

impl Limits {
    fn apply(self, config: HostConfig) -> HostConfig {
        HostConfig {
            max_sessions: self.sessions,
            max_snapshots_per_session: self.snapshots,
            per_tool_snapshots: self.tool_snapshots,
            ..config
        }
    }
}

/// Lays the tree of a base: the files the model begins with, the places every box mounts something
/// at, and the few programs commands need unless it is bare.
fn lay_base(root: &Path, base: &str) {
    let programs: &[&str] = if base == BARE { &[] } else { &Action::PROGRAMS };
    for program in programs {
        lay_program(root, &Path::new("/bin").join(program));
    }
    // A box makes those that are missing, and then they are a difference.
    for directory in ["dev", "proc", "sys", "tmp", "workspace"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (path, entry) in base_files(base).entries() {
        let place = root.join("workspace").join(path);
        match entry {
            EntryView::Directory { .. } => fs::create_dir(place).unwrap(),
            EntryView::File { content, .. } => fs::write(place, content).unwrap(),
            EntryView::Link { target } => std::os::unix::fs::symlink(target, place).unwrap(),
        }
    }
}

/// Copies a program and the libraries it needs.
fn lay_program(root: &Path, program: &Path) {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(listed.stdout).unwrap();
    let paths = libraries
        .split_whitespace()
        .map(Path::new)
        .filter(|path| path.is_absolute());
    for path in paths.chain([program]) {
        let place = root.join(path.strip_prefix("/").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(path, place).unwrap();
    }
}
