//! A box with the intruder in it, over a base that others could share, on a host with bait.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use sandbar_core::{BaseName, Resources, RootRights, RuntimeKind, SessionId, StorageKind, UserAccount};
use sandbar_netns::GateSockets;
use sandbar_runtime::{
    BoxNetwork, ExecSpec, GvisorRuntime, GvisorSettings, NativeRuntime, NoneRuntime, Runtime, Sandbox, SandboxSpec,
};
use sandbar_storage::{Storage, StorageConfig, VolumeSpec};
use sandbar_testing::{Bait, FileSystem, Image, Intruder, commit_base, tree};
use tokio::runtime::Handle;

use crate::{case::Subject, ended::Ended};

/// A directory of an ordinary user.
const USER_DIRECTORY: &str = "/user";

/// `name` is the host's, for cgroups and directories of the runtime. The calling thread is in a mount namespace of its own
/// and inside a tokio runtime.
fn open_runtime(kind: RuntimeKind, name: &str) -> Arc<dyn Runtime> {
    match kind {
        RuntimeKind::None => Arc::new(NoneRuntime::open(name).unwrap()),
        RuntimeKind::Native => {
            let runtime = NativeRuntime::open(name).unwrap();
            // The attempt is made in a box that was made ahead. Others go the same way without the wait.
            runtime.warm_up();
            Arc::new(runtime)
        }
        RuntimeKind::Gvisor => {
            // None in store: every attempt has one box.
            let settings = GvisorSettings {
                warm: 0,
                ..GvisorSettings::new(name, std::env::temp_dir().join(format!("{name}-containers")))
            };
            Arc::new(GvisorRuntime::open(&settings).unwrap())
        }
    }
}

pub(crate) struct World {
    bait: Bait,
    /// The tree of the base on the host, which no box may change.
    base: PathBuf,
    /// Who makes the attempts; root when absent.
    user: Option<UserAccount>,
    rights: RootRights,
    sandbox: Arc<dyn Sandbox>,
    runtime: Arc<dyn Runtime>,
    storage: Arc<dyn Storage>,
    // Dropped in order: the storage lets go before the file system below it goes away.
    tokio: tokio::runtime::Runtime,
    _image: Image,
    _scratch: tree::Scratch,
}

impl World {
    pub(crate) fn open(subject: Subject) -> Self {
        Self::open_with(subject, BoxNetwork::Closed)
    }

    pub(crate) fn open_with(subject: Subject, network: BoxNetwork) -> Self {
        // First, so that the threads and processes of the runtime inherit what a careless host would let them.
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
        let base = storage.base_view(&base_name()).unwrap().layers[0].lower.clone().unwrap();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let name = scratch.path().file_name().unwrap().to_str().unwrap();
        let inside = tokio.enter();
        let runtime = open_runtime(subject.runtime(), name);
        let (user, rights) = (subject.user(), subject.rights());
        let sandbox = open_sandbox(&*runtime, &*storage, network, rights);
        drop(inside);
        Self { bait, base, user, rights, sandbox, runtime, storage, tokio, _image: image, _scratch: scratch }
    }

    /// Takes the box away with all that was done in it, and opens another over the same base.
    pub(crate) fn renew(&mut self) {
        let sandbox = Arc::clone(&self.sandbox);
        self.tokio.block_on(async { Handle::current().spawn_blocking(move || sandbox.stop()).await }).unwrap().unwrap();
        self.storage.delete(&session()).unwrap();
        let inside = self.tokio.enter();
        self.sandbox = open_sandbox(&*self.runtime, &*self.storage, BoxNetwork::Closed, self.rights);
        drop(inside);
    }

    pub(crate) fn open_gate(&self) -> GateSockets {
        self.sandbox.open_gate(&[123]).unwrap()
    }

    /// Makes one attempt, insists that nothing outside has changed, and returns what the intruder said.
    pub(crate) fn attempt(&mut self, attempt: &str) -> String {
        let (host, base) = (self.bait.host_state(), self.base_tree());
        let mut arguments = vec![Intruder::program(Path::new("/")).display().to_string(), attempt.to_owned()];
        arguments.extend(self.bait.facts());
        arguments.extend(Intruder::facts(Path::new("/")));
        let cwd = self.user.as_ref().map(|_| USER_DIRECTORY.to_owned());
        let ended = self.finish(ExecSpec { cwd, ..ExecSpec::new(arguments) });
        assert_eq!(self.base_tree(), base, "{attempt} changed the base: {}", ended.stdout);
        assert_eq!(self.bait.host_state(), host, "{attempt} changed the host: {}", ended.stdout);
        let said = ended.stdout.trim_end();
        let expected = match said.split_once(':') {
            Some(("held", _)) => 0,
            Some(("ESCAPED", _)) => 1,
            _ => 2,
        };
        assert_eq!(ended.status.code, Some(expected), "{attempt}: {said}{}", ended.stderr);
        said.to_owned()
    }

    fn finish(&self, spec: ExecSpec) -> Ended {
        let (sandbox, user) = (Arc::clone(&self.sandbox), self.user.clone());
        self.tokio.block_on(async move {
            let command =
                tokio::task::spawn_blocking(move || sandbox.exec_as(spec, user.as_ref())).await.unwrap().unwrap();
            Ended::of(command).await
        })
    }

    /// The part of the base that attempts go for; the programs beside it are large.
    fn base_tree(&self) -> BTreeMap<PathBuf, tree::Entry> {
        tree::tree(Intruder::base_file(&self.base).parent().unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let (sandbox, runtime) = (Arc::clone(&self.sandbox), Arc::clone(&self.runtime));
        let stopping = move || sandbox.stop().and_then(|()| runtime.close());
        let stopped = self.tokio.block_on(async { Handle::current().spawn_blocking(stopping).await });
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

/// A box over a volume of its own.
fn open_sandbox(
    runtime: &dyn Runtime,
    storage: &dyn Storage,
    network: BoxNetwork,
    rights: RootRights,
) -> Arc<dyn Sandbox> {
    let session = &session();
    storage.create(session, &VolumeSpec { base: base_name(), quota: None }).unwrap();
    let owners = runtime.owners().unwrap();
    let mounted = storage.mount_as(session, owners.as_deref()).unwrap();
    let owners = owners.filter(|_| mounted.translated);
    let spec = SandboxSpec {
        skip_pids: 0,
        session,
        root: &mounted.root,
        owners,
        resources: &Resources::default(),
        network,
        trust: None,
        rights,
    };
    runtime.open_sandbox(&spec).unwrap()
}
