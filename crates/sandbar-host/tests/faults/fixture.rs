//! A host over a faulty storage and a faulty runtime.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use rusqlite::Connection;
use sandbar_core::{
    BaseName, ErrorCode, ExecEvent, ExecSpec, Result, RuntimeKind, SessionId, SessionSpec,
    SnapshotName, WriteOptions,
};
use sandbar_host::{Host, HostConfig, HostParts};
use sandbar_storage::{OpenedStorage, Space, Storage};
use sandbar_testing::{Backend, StorageFixture};

use crate::{
    faulty_runtime::FaultyRuntime, faulty_storage::FaultyStorage, switchboard::Switchboard,
};

/// Time after which a step of a test counts as hung.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// A host that can be made to meet faults, and started again.
pub(crate) struct FaultyHost {
    host: Option<Arc<Host>>,
    pub(crate) config: HostConfig,
    pub(crate) faults: Arc<Switchboard>,
    /// Space that the storage reports instead of its own.
    pub(crate) space: Arc<Mutex<Option<Space>>>,
    /// The storage of the running host, without faults.
    real: Arc<Mutex<Option<Arc<dyn Storage>>>>,
    // Outlives the host: it holds the file system below.
    pub(crate) fixture: StorageFixture,
}

/// Runs a case on a fresh host and stops the host afterwards.
pub(crate) fn with_faults(
    backend: Backend,
    runtime: RuntimeKind,
    case: impl AsyncFnOnce(&mut FaultyHost),
) {
    let fixture = StorageFixture::new(backend);
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .unwrap();
    executor.block_on(async {
        let config = HostConfig {
            // Failed deletions are tried again after this.
            health_check_interval: Duration::from_millis(20),
            ..HostConfig::on_storage(fixture.data_dir(), fixture.close(), runtime)
        };
        let (faults, space, real) = (
            Arc::<Switchboard>::default(),
            Arc::default(),
            Arc::default(),
        );
        let _release = ReleaseAtTheEnd(Arc::clone(&faults));
        let mut host = FaultyHost {
            host: None,
            config,
            faults,
            space,
            real,
            fixture,
        };
        host.start().await.unwrap();
        case(&mut host).await;
        host.stop().await.unwrap();
    });
}

/// Lets go of calls that hang also when the test fails; their threads would hold it up otherwise.
struct ReleaseAtTheEnd(Arc<Switchboard>);

impl Drop for ReleaseAtTheEnd {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl FaultyHost {
    pub(crate) fn host(&self) -> &Arc<Host> {
        self.host.as_ref().unwrap()
    }

    /// The storage of the running host, without faults.
    pub(crate) fn real(&self) -> Arc<dyn Storage> {
        Arc::clone(self.real.lock().unwrap().as_ref().unwrap())
    }

    /// Starts a host on what the last one left.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let config = self.config.storage();
        let (faults, space, slot) = (
            Arc::clone(&self.faults),
            Arc::clone(&self.space),
            Arc::clone(&self.real),
        );
        let runtime_faults = Arc::clone(&self.faults);
        let parts = HostParts {
            open_storage: Box::new(move || {
                let real = sandbar_storage::open(&config)?.storage;
                *slot.lock().unwrap() = Some(Arc::clone(&real));
                let storage = Arc::new(FaultyStorage {
                    real,
                    faults,
                    space,
                });
                Ok(OpenedStorage {
                    storage,
                    reason: "test".into(),
                })
            }),
            wrap_runtime: Box::new(move |real| {
                Arc::new(FaultyRuntime {
                    real,
                    faults: runtime_faults,
                })
            }),
        };
        self.host = Some(Host::start_with(self.config.clone(), parts).await?);
        Ok(())
    }

    /// Stops and drops the host, whatever the result.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let host = self.host.take().unwrap();
        let stopped = host.shutdown().await;
        *self.real.lock().unwrap() = None;
        stopped
    }

    pub(crate) async fn restart(&mut self) {
        self.stop().await.unwrap();
        self.start().await.unwrap();
    }

    pub(crate) async fn create(&self, id: &str) -> SessionId {
        self.host().create_session(spec(id)).await.unwrap().id
    }

    pub(crate) async fn write(&self, id: &SessionId, content: &str) -> Result<()> {
        let options = WriteOptions {
            create_dirs: true,
            ..WriteOptions::default()
        };
        let mut writer = self.host().write_file(id, FILE.as_ref(), options).await?;
        writer
            .write(Bytes::copy_from_slice(content.as_bytes()))
            .await?;
        writer.commit().await
    }

    /// The content of the file; `None` when it is not there, an error when the session cannot be
    /// looked at now.
    pub(crate) async fn read(&self, id: &SessionId) -> std::result::Result<Option<String>, String> {
        match self.host().open_file(id, FILE.as_ref()).await {
            Ok((file, _)) => Ok(Some(std::io::read_to_string(file).unwrap())),
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(None),
            Err(error) => Err(format!("{id}: {}", error.chain())),
        }
    }

    pub(crate) async fn shell(&self, id: &SessionId, script: &str) -> Result<()> {
        shell(self.host(), id, script).await
    }

    pub(crate) async fn snapshot_names(&self, id: &SessionId) -> Vec<String> {
        let snapshots = self.host().list_snapshots(id).await.unwrap();
        snapshots
            .into_iter()
            .map(|snapshot| snapshot.name.to_string())
            .collect()
    }

    /// Counts the intents in the state database.
    pub(crate) fn intents(&self) -> i64 {
        let database = Connection::open(self.config.data_dir.join("state.db")).unwrap();
        database
            .query_one("SELECT count(*) FROM intent", [], |row| row.get(0))
            .unwrap()
    }
}

/// The file whose content tells how far a session is.
pub(crate) const FILE: &str = "/workspace/f";

/// Runs a shell command to its end, which has to be a good one.
pub(crate) async fn shell(host: &Host, id: &SessionId, script: &str) -> Result<()> {
    let mut spec = ExecSpec::new(["/bin/sh", "-c", script]);
    spec.resources.wall_time = Some(STEP_TIMEOUT);
    let mut command = host.exec(id, spec).await?;
    while let Some(event) = command.next_event().await {
        if let ExecEvent::Exited(status) = event {
            assert_eq!(status.code, Some(0), "`{script}` in {id}: {status:?}");
        }
    }
    Ok(())
}

/// Waits until `look` finds nothing to complain about.
pub(crate) async fn settled<T>(mut look: impl AsyncFnMut() -> std::result::Result<T, String>) -> T {
    let deadline = Instant::now() + STEP_TIMEOUT;
    loop {
        match look().await {
            Ok(seen) => return seen,
            Err(complaint) => assert!(Instant::now() < deadline, "{complaint}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A session over this machine's programs, so that commands can run.
pub(crate) fn spec(id: &str) -> SessionSpec {
    let mut spec = SessionSpec::new(BaseName::new("host").unwrap());
    spec.id = Some(id.parse().unwrap());
    spec
}

pub(crate) fn snap(name: &str) -> SnapshotName {
    name.parse().unwrap()
}
