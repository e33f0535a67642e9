use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use sandbar_core::{
    BaseName, ExecEvent, ExecSpec, Quiesce, RuntimeKind, SessionId, SessionInfo, SessionSpec,
    SnapshotName,
};
use sandbar_host::{Host, HostConfig};
use sandbar_testing::{Backend, StorageFixture};
use sandbar_tree::archive::{ArchiveEntry, ArchiveReader, ArchiveWriter, EntryKind};

use crate::host_config::host_config;

/// A host over a storage of its own, in a mount namespace of its own.
pub(crate) struct HostFixture {
    pub(crate) host: RunningHost,
    pub(crate) config: HostConfig,
    // Outlives the host: it holds the file system below.
    pub(crate) storage: StorageFixture,
}

/// The host of a fixture, which is there except while it is started again.
#[derive(Debug)]
pub(crate) struct RunningHost(Option<Arc<Host>>);

impl std::ops::Deref for RunningHost {
    type Target = Arc<Host>;

    fn deref(&self) -> &Arc<Host> {
        self.0.as_ref().unwrap()
    }
}

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl HostFixture {
    /// Runs a case on a fresh host and stops the host afterwards.
    pub(crate) fn run(
        backend: Backend,
        runtime: RuntimeKind,
        case: impl for<'a> FnOnce(&'a mut Self) -> Case<'a>,
    ) {
        Self::run_with(backend, runtime, |_| {}, case);
    }

    /// As [`run`](Self::run), with another configuration.
    pub(crate) fn run_with(
        backend: Backend,
        runtime: RuntimeKind,
        configure: impl FnOnce(&mut HostConfig),
        case: impl for<'a> FnOnce(&'a mut Self) -> Case<'a>,
    ) {
        let storage = StorageFixture::new(backend);
        let executor = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(2)
            .build()
            .unwrap();
        executor.block_on(async {
            let mut config = host_config(&storage, runtime);
            configure(&mut config);
            let host = RunningHost(Some(Host::start(config.clone()).await.unwrap()));
            let mut fixture = Self {
                host,
                config,
                storage,
            };
            case(&mut fixture).await;
            fixture.host.shutdown().await.unwrap();
        });
    }

    /// Stops the host and starts another on the same data.
    pub(crate) async fn restart(&mut self) {
        self.restart_with(self.config.clone()).await;
    }

    pub(crate) async fn restart_with(&mut self, config: HostConfig) {
        self.host.shutdown().await.unwrap();
        // The old host releases its lock when it is dropped, which must be before the new one
        // starts.
        self.host.0 = None;
        self.host.0 = Some(Host::start(config).await.unwrap());
    }

    /// Waits until `look` sees something.
    pub(crate) async fn eventually<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let deadline = std::time::Instant::now() + Duration::from_mins(3);
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "waited too long until {what}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A session over the small base of the fixture.
    pub(crate) async fn session(&self, id: &str) -> SessionId {
        self.make(spec(id)).await.id
    }

    /// A session over this machine's programs, so that commands can run.
    pub(crate) async fn machine(&self, id: &str) -> SessionId {
        let mut spec = spec(id);
        spec.base = BaseName::new("host").unwrap();
        self.make(spec).await.id
    }

    pub(crate) async fn make(&self, spec: SessionSpec) -> SessionInfo {
        self.host.create_session(spec).await.unwrap()
    }

    /// Runs a shell command to its end: stdout and exit code.
    pub(crate) async fn shell(&self, id: &SessionId, script: &str) -> (String, Option<i32>) {
        let mut command = self
            .host
            .exec(id, ExecSpec::new(["/bin/sh", "-c", script]))
            .await
            .unwrap();
        let mut output = Vec::new();
        while let Some(event) = command.next_event().await {
            match event {
                ExecEvent::Stdout(bytes) => output.extend_from_slice(&bytes),
                ExecEvent::Stderr(bytes) => panic!("{script}: {}", String::from_utf8_lossy(&bytes)),
                ExecEvent::Exited(status) => {
                    return (String::from_utf8(output).unwrap(), status.code);
                }
            }
        }
        panic!("the command never exited");
    }

    pub(crate) async fn write(&self, id: &SessionId, path: &str, content: &str) {
        let options = sandbar_core::WriteOptions {
            create_dirs: true,
            ..Default::default()
        };
        let mut writer = self
            .host
            .write_file(id, path.as_ref(), options)
            .await
            .unwrap();
        writer
            .write(Bytes::copy_from_slice(content.as_bytes()))
            .await
            .unwrap();
        writer.commit().await.unwrap();
    }

    /// The content of a file; `None` when it is not there.
    pub(crate) async fn read(&self, id: &SessionId, path: &str) -> Option<String> {
        match self.host.open_file(id, path.as_ref()).await {
            Ok((file, _)) => Some(std::io::read_to_string(file).unwrap()),
            Err(error) => {
                assert_eq!(
                    error.code(),
                    sandbar_core::ErrorCode::FileNotFound,
                    "{}",
                    error.chain()
                );
                None
            }
        }
    }

    /// Sends one file as a tree of its own, and so with an owner.
    pub(crate) async fn import(&self, id: &SessionId, path: &str, owner: (u32, u32), mode: u32) {
        let entry = ArchiveEntry {
            path: path.as_bytes().to_vec(),
            kind: EntryKind::File,
            mode,
            uid: owner.0,
            gid: owner.1,
            modified: rustix::fs::Timespec {
                tv_sec: 1_500_000_000,
                tv_nsec: 0,
            },
            size: 0,
            segments: None,
            xattrs: Vec::new(),
        };
        let mut archive = ArchiveWriter::new(Vec::new());
        archive.append(&entry, &mut std::io::empty()).unwrap();
        let mut writer = self.host.import_tree(id, ".".as_ref()).await.unwrap();
        writer
            .write(archive.finish().unwrap().0.into())
            .await
            .unwrap();
        writer.finish().await.unwrap();
    }

    /// The tree at `path`, as a tar.
    pub(crate) async fn exported(&self, id: &SessionId, path: &str) -> Vec<u8> {
        let mut reader = self.host.export_tree(id, path.as_ref()).await.unwrap();
        let mut tar = Vec::new();
        while let Some(piece) = reader.next().await {
            tar.extend_from_slice(&piece.unwrap());
        }
        tar
    }

    /// Exports the tree at `path`; returns its names and owners.
    pub(crate) async fn exported_owners(
        &self,
        id: &SessionId,
        path: &str,
    ) -> Vec<(String, (u32, u32))> {
        let tar = self.exported(id, path).await;
        let mut archive = ArchiveReader::new(&tar[..]);
        let mut found = Vec::new();
        while let Some(entry) = archive.next_entry().unwrap() {
            found.push((
                String::from_utf8(entry.path).unwrap(),
                (entry.uid, entry.gid),
            ));
        }
        found
    }

    pub(crate) async fn snapshot(&self, id: &SessionId, name: &str) {
        self.host
            .create_snapshot(id, Some(snap(name)), Quiesce::WhereNeeded)
            .await
            .unwrap();
    }

    pub(crate) async fn snapshot_names(&self, id: &SessionId) -> Vec<String> {
        let snapshots = self.host.list_snapshots(id).await.unwrap();
        snapshots
            .into_iter()
            .map(|snapshot| snapshot.name.to_string())
            .collect()
    }
}

pub(crate) fn spec(id: &str) -> SessionSpec {
    let mut spec = SessionSpec::new(BaseName::new("small").unwrap());
    spec.id = Some(id.parse().unwrap());
    spec
}

pub(crate) fn snap(name: &str) -> SnapshotName {
    name.parse().unwrap()
}
