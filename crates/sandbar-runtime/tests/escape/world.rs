//! A box with the intruder, over a shared base, on a host with bait.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use sandbar_core::{
    BaseName, Resources, RootRights, RuntimeKind, SessionId, StorageKind, UserAccount,
};
use sandbar_netns::NetnsListeners;
use sandbar_runtime::{
    BoxNetwork, ExecSpec, GvisorRuntime, GvisorSettings, NativeRuntime, NoneRuntime, Runtime,
    Sandbox, SandboxSpec,
};
use sandbar_storage::{Storage, StorageConfig, VolumeSpec};
use sandbar_testing::{Bait, FileSystem, Image, Intruder, commit_base, tree};
use tokio::runtime::Handle;

use crate::{case::Subject, ended::Ended};

/// A directory of an ordinary user.
const USER_DIRECTORY: &str = "/user";

/// Opens a runtime whose cgroups and directories are named after the host `name`. The calling
/// thread must have its own mount namespace and be inside a tokio runtime.
fn open_runtime(kind: RuntimeKind, name: &str) -> Arc<dyn Runtime> {
    match kind {
        RuntimeKind::None => Arc::new(NoneRuntime::open(name).unwrap()),
        RuntimeKind::Native => {
            let runtime = NativeRuntime::open(name).unwrap();
            // Attempts run in a prepared box; one opened on demand is set up the same way.
            runtime.warm_up();
            Arc::new(runtime)
        }
        RuntimeKind::Gvisor => {
            // No pool: every attempt has one box.
            let settings = GvisorSettings {
                warm: 0,
                ..GvisorSettings::new(
                    name,
                    std::env::temp_dir().join(format!("{name}-containers")),
                )
            };
            Arc::new(GvisorRuntime::open(&settings).unwrap())
        }
    }
}

pub(crate) struct World {
    bait: Bait,
    /// The tree of the base on the host, which no box may change.
    base: PathBuf,
    /// User that makes the attempts. `None`: root.
    user: Option<UserAccount>,
    rights: RootRights,
    sandbox: Arc<dyn Sandbox>,
    runtime: Arc<dyn Runtime>,
    storage: Arc<dyn Storage>,
    // Fields drop in order: the storage closes before the file system below it is unmounted.
    tokio: tokio::runtime::Runtime,
    _image: Image,
    _scratch: tree::Scratch,
}

impl World {
    pub(crate) fn open(subject: Subject) -> Self {
        Self::open_with(subject, BoxNetwork::Closed)
    }

    pub(crate) fn open_with(subject: Subject, network: BoxNetwork) -> Self {
        // First, so that threads and processes of the runtime could inherit the bait.
        let bait = Bait::lay();
        let scratch = tree::scratch();
        let image = Image::new(scratch.path(), FileSystem::Tmpfs, 256);
        let config = StorageConfig {
            choice: Some(StorageKind::LocalDisk),
            directory: image.path().join("storage"),
            zfs: None,
            pool_image_limit: None,
        };
        let storage = sandbar_storage::open(&config).unwrap().storage;
        commit_base(&*storage, &base_name(), fill_base);
        let base = storage.base_view(&base_name()).unwrap().layers[0]
            .lower
            .clone()
            .unwrap();
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let name = scratch.path().file_name().unwrap().to_str().unwrap();
        let inside = tokio.enter();
        let runtime = open_runtime(subject.runtime(), name);
        let (user, rights) = (subject.user(), subject.rights());
        let sandbox = open_sandbox(&*runtime, &*storage, network, rights);
        drop(inside);
        Self {
            bait,
            base,
            user,
            rights,
            sandbox,
            runtime,
            storage,
            tokio,
            _image: image,
            _scratch: scratch,
        }
    }

    /// Destroys the box with its volume and opens another over the same base.
    pub(crate) fn renew(&mut self) {
        let sandbox = Arc::clone(&self.sandbox);
        self.tokio
            .block_on(async {
                Handle::current()
                    .spawn_blocking(move || sandbox.stop())
                    .await
            })
            .unwrap()
            .unwrap();
        self.storage.delete(&session()).unwrap();
        let inside = self.tokio.enter();
        self.sandbox = open_sandbox(
            &*self.runtime,
            &*self.storage,
            BoxNetwork::Closed,
            self.rights,
        );
        drop(inside);
    }

    pub(crate) fn open_listeners(&self) -> NetnsListeners {
        self.sandbox.open_listeners(&[123]).unwrap()
    }

    /// Makes one attempt, asserts that nothing outside has changed, and returns the verdict line.
    pub(crate) fn attempt(&mut self, attempt: &str) -> String {
        let (host, base) = (self.bait.host_state(), self.base_tree());
        let mut arguments = vec![
            Intruder::program(Path::new("/")).display().to_string(),
            attempt.to_owned(),
        ];
        arguments.extend(self.bait.facts());
        arguments.extend(Intruder::facts(Path::new("/")));
        let cwd = self.user.as_ref().map(|_| USER_DIRECTORY.to_owned());
        let ended = self.finish(ExecSpec {
            cwd,
            ..ExecSpec::new(arguments)
        });
        assert_eq!(
            self.base_tree(),
            base,
            "{attempt} changed the base: {}",
            ended.stdout
        );
        assert_eq!(
            self.bait.host_state(),
            host,
            "{attempt} changed the host: {}",
            ended.stdout
        );
        let said = ended.stdout.trim_end();
        let expected = match said.split_once(':') {
            Some(("held", _)) => 0,
            Some(("ESCAPED", _)) => 1,
            _ => 2,
        };
        assert_eq!(
            ended.status.code,
            Some(expected),
            "{attempt}: {said}{}",
            ended.stderr
        );
        said.to_owned()
    }

    fn finish(&self, spec: ExecSpec) -> Ended {
        let (sandbox, user) = (Arc::clone(&self.sandbox), self.user.clone());
        self.tokio.block_on(async move {
            let command = tokio::task::spawn_blocking(move || sandbox.exec_as(spec, user.as_ref()))
                .await
                .unwrap()
                .unwrap();
            Ended::of(command).await
        })
    }

    /// Reads the part of the base that attempts target; the programs beside it are large.
    fn base_tree(&self) -> BTreeMap<PathBuf, tree::Entry> {
        tree::tree(Intruder::base_file(&self.base).parent().unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let (sandbox, runtime) = (Arc::clone(&self.sandbox), Arc::clone(&self.runtime));
        let stopping = move || sandbox.stop().and_then(|()| runtime.close());
        let stopped = self
            .tokio
            .block_on(async { Handle::current().spawn_blocking(stopping).await });
        let closed = self.storage.close();
        // A second panic would hide the first.
        if !std::thread::panicking() {
            stopped.unwrap().unwrap();
            closed.unwrap();
        }
    }
}

fn session() -> SessionId {
    SessionId::new("one").unwrap()
}

fn base_name() -> BaseName {
    BaseName::new("shared").unwrap()
}

fn fill_base(root: &Path) {
    for directory in ["dev", "proc", "sys", "tmp", "workspace"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    tree::set_mode(&root.join("tmp"), 0o1777);
    std::fs::create_dir(root.join(&USER_DIRECTORY[1..])).unwrap();
    std::os::unix::fs::chown(root.join(&USER_DIRECTORY[1..]), Some(1000), Some(1000)).unwrap();
    Intruder::find().place(root);
}

/// Opens a box over a new volume.
fn open_sandbox(
    runtime: &dyn Runtime,
    storage: &dyn Storage,
    network: BoxNetwork,
    rights: RootRights,
) -> Arc<dyn Sandbox> {
    let session = &session();
    storage
        .create(
            session,
            &VolumeSpec {
                base: base_name(),
                quota: None,
            },
        )
        .unwrap();
    let owners = runtime.owners().unwrap();
    let mounted = storage.mount_as(session, owners.as_deref()).unwrap();
    let owners = owners.filter(|_| mounted.translated);
    let spec = SandboxSpec {
        skip_pids: 0,
        session,
        root: &mounted.root,
        owners,
        resources: &Resources::default(),
        default_memory: None,
        network,
        trust: None,
        rights,
    };
    runtime.open_sandbox(&spec).unwrap()
}
