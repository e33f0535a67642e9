//! A storage that fails where it is told to.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use sandbar_core::{
    BaseName, ByteCount, Error, ErrorCode, ForkRequest, LaterSnapshots, OwnerMap, Quiesce, Result, RuntimeKind,
    SessionId, SessionState, SnapshotName, StorageKind,
};
use sandbar_host::{Host, HostConfig, HostParts, RuntimeChoice};
use sandbar_storage::{
    BaseRecord, ForkPoint, Mounted, OpenedStorage, Space, StagedBase, Storage, StorageFacts, StoredSnapshot, TreeView,
    Usage, VolumeSpec,
};
use sandbar_testing::{Backend, StorageFixture};

use crate::fixture::{snap, spec};

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Before it did anything.
    Before,
    /// After it did everything: the answer is a lie.
    After,
}

/// A real storage with one fault in it.
#[derive(Debug)]
struct Faulty {
    real: Arc<dyn Storage>,
    fault: Mutex<Option<(&'static str, When)>>,
    faults_left: AtomicUsize,
}

impl Faulty {
    /// The next `count` calls of `name` fail.
    fn arm(&self, name: &'static str, when: When, count: usize) {
        *self.fault.lock().unwrap() = Some((name, when));
        self.faults_left.store(count, Ordering::SeqCst);
    }

    fn around<T>(&self, name: &'static str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let fault = self.fault.lock().unwrap().filter(|(armed, _)| *armed == name);
        let Some((_, when)) = fault else { return call() };
        if self.faults_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
            return call();
        }
        if when == When::After {
            call()?;
        }
        Err(Error::internal(format!("injected fault in {name}")))
    }
}

impl Storage for Faulty {
    fn kind(&self) -> StorageKind {
        self.real.kind()
    }
    fn facts(&self) -> &StorageFacts {
        self.real.facts()
    }
    fn bases(&self) -> Result<Vec<BaseRecord>> {
        self.real.bases()
    }
    fn base(&self, name: &BaseName) -> Result<BaseRecord> {
        self.real.base(name)
    }
    fn stage_base(&self, name: &BaseName) -> Result<StagedBase> {
        self.real.stage_base(name)
    }
    fn commit_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()> {
        self.real.commit_base(staged, record)
    }
    fn delete_base(&self, name: &BaseName) -> Result<()> {
        self.real.delete_base(name)
    }
    fn create(&self, volume: &SessionId, spec: &VolumeSpec) -> Result<()> {
        self.around("create", || self.real.create(volume, spec))
    }
    fn fork(&self, source: &SessionId, point: &ForkPoint, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        self.around("fork", || self.real.fork(source, point, volume, quota))
    }
    fn delete(&self, volume: &SessionId) -> Result<()> {
        self.around("delete", || self.real.delete(volume))
    }
    fn volumes(&self) -> Result<Vec<SessionId>> {
        self.real.volumes()
    }
    fn snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<StoredSnapshot> {
        self.around("snapshot", || self.real.snapshot(volume, name))
    }
    fn snapshots(&self, volume: &SessionId) -> Result<Vec<StoredSnapshot>> {
        self.real.snapshots(volume)
    }
    fn delete_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<()> {
        self.around("delete_snapshot", || self.real.delete_snapshot(volume, name))
    }
    fn rollback(&self, volume: &SessionId, name: &SnapshotName, later: LaterSnapshots) -> Result<()> {
        self.around("rollback", || self.real.rollback(volume, name, later))
    }
    fn mount_as(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted> {
        self.real.mount_as(volume, owners)
    }
    fn unmount(&self, volume: &SessionId) -> Result<()> {
        self.real.unmount(volume)
    }
    fn view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
        self.real.view(volume, at)
    }
    fn base_view(&self, base: &BaseName) -> Result<TreeView> {
        self.real.base_view(base)
    }
    fn volume_base(&self, volume: &SessionId) -> Result<BaseName> {
        self.real.volume_base(volume)
    }
    fn usage(&self, volume: &SessionId) -> Result<Usage> {
        self.real.usage(volume)
    }
    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        self.real.set_quota(volume, quota)
    }
    fn space(&self) -> Result<Space> {
        self.real.space()
    }
    fn settle(&self) -> Result<()> {
        self.real.settle()
    }
    fn close(&self) -> Result<()> {
        self.real.close()
    }
}

/// Runs `case` on a host over a faulty storage.
fn with_faults<F: Future<Output = ()>>(case: impl FnOnce(Arc<Host>, Arc<Faulty>) -> F) {
    let fixture = StorageFixture::new(Backend::LocalDiskExt4);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let faulty = Arc::new(Faulty {
            real: Arc::clone(&fixture.storage),
            fault: Mutex::default(),
            faults_left: AtomicUsize::new(0),
        });
        let config = HostConfig {
            data_dir: fixture.scratch().join("data"),
            container_runtime: RuntimeChoice::Named(RuntimeKind::None),
            health_check_interval: std::time::Duration::from_millis(20),
            ..HostConfig::default()
        };
        let opened = OpenedStorage { storage: Arc::clone(&faulty) as Arc<dyn Storage>, reason: "test".into() };
        let parts = HostParts { open_storage: Box::new(move || Ok(opened)), wrap_runtime: Box::new(|runtime| runtime) };
        let host = Host::start_with(config, parts).await.unwrap();
        case(Arc::clone(&host), faulty).await;
        host.shutdown().await.unwrap();
    });
}

#[test]
fn a_create_that_fails_leaves_nothing() {
    with_faults(|host, faulty| async move {
        for when in [When::Before, When::After] {
            faulty.arm("create", when, 1);
            host.create_session(spec("s")).await.unwrap_err();
            assert!(faulty.real.volumes().unwrap().is_empty());
            assert_eq!(host.get_session(&"s".parse().unwrap()).await.unwrap_err().code(), ErrorCode::SessionNotFound);
        }
        host.create_session(spec("s")).await.unwrap();
    });
}

#[test]
fn a_fork_that_fails_half_way_leaves_none_of_its_copies() {
    with_faults(|host, faulty| async move {
        let source = host.create_session(spec("s")).await.unwrap().id;
        for when in [When::Before, When::After] {
            faulty.arm("fork", when, 1);
            let request = ForkRequest { count: 3, ..ForkRequest::default() };
            host.fork_session(&source, request).await.unwrap_err();
            assert_eq!(faulty.real.volumes().unwrap(), std::slice::from_ref(&source));
        }
        assert_eq!(host.get_session(&source).await.unwrap().state, SessionState::Active);
    });
}

#[test]
fn a_snapshot_that_fails_leaves_none_and_its_name_is_free() {
    with_faults(|host, faulty| async move {
        let id = host.create_session(spec("s")).await.unwrap().id;
        for when in [When::Before, When::After] {
            faulty.arm("snapshot", when, 1);
            host.create_snapshot(&id, Some(snap("x")), Quiesce::WhereNeeded).await.unwrap_err();
            assert!(host.list_snapshots(&id).await.unwrap().is_empty());
            assert!(faulty.real.snapshots(&id).unwrap().is_empty());
        }
        host.create_snapshot(&id, Some(snap("x")), Quiesce::WhereNeeded).await.unwrap();
        faulty.arm("delete_snapshot", When::Before, 1);
        host.delete_snapshot(&id, &snap("x")).await.unwrap_err();
        assert_eq!(host.list_snapshots(&id).await.unwrap().len(), 1);
        host.delete_snapshot(&id, &snap("x")).await.unwrap();
    });
}

#[test]
fn a_rollback_that_fails_leaves_the_session_active() {
    with_faults(|host, faulty| async move {
        let id = host.create_session(spec("s")).await.unwrap().id;
        for name in ["one", "two"] {
            host.create_snapshot(&id, Some(snap(name)), Quiesce::WhereNeeded).await.unwrap();
        }
        faulty.arm("rollback", When::Before, 1);
        host.rollback_session(&id, &snap("one"), LaterSnapshots::Drop).await.unwrap_err();
        assert_eq!(host.get_session(&id).await.unwrap().state, SessionState::Active);
        assert_eq!(host.list_snapshots(&id).await.unwrap().len(), 2);
        faulty.arm("rollback", When::After, 1);
        host.rollback_session(&id, &snap("one"), LaterSnapshots::Drop).await.unwrap_err();
        // The storage did drop the later one; the records say so, whatever the answer was.
        assert_eq!(host.list_snapshots(&id).await.unwrap().len(), 1);
        host.rollback_session(&id, &snap("one"), LaterSnapshots::Drop).await.unwrap();
    });
}

#[test]
fn a_volume_that_cannot_be_deleted_is_freed_later() {
    with_faults(|host, faulty| async move {
        let id = host.create_session(spec("s")).await.unwrap().id;
        host.create_snapshot(&id, Some(snap("one")), Quiesce::WhereNeeded).await.unwrap();
        for when in [When::Before, When::After] {
            faulty.arm("delete", when, 1);
            assert_eq!(host.hibernate_session(&id).await.unwrap().state, SessionState::Hibernated);
            sandbar_testing::eventually("the janitor frees it", || faulty.real.volumes().unwrap().is_empty());
            // What fails on the way back leaves it where it was.
            for (call, when) in [("create", When::Before), ("snapshot", When::Before), ("snapshot", When::After)] {
                faulty.arm(call, when, 1);
                host.wake_session(&id).await.unwrap_err();
                assert_eq!(host.get_session(&id).await.unwrap().state, SessionState::Hibernated);
                assert!(faulty.real.volumes().unwrap().is_empty(), "{call}");
            }
            assert_eq!(host.wake_session(&id).await.unwrap().state, SessionState::Active);
            assert_eq!(host.list_snapshots(&id).await.unwrap().len(), 1);
            assert_eq!(faulty.real.snapshots(&id).unwrap().len(), 1);
        }
    });
}

#[test]
fn a_destroy_that_fails_is_reported_and_tried_again() {
    with_faults(|host, faulty| async move {
        let id = host.create_session(spec("s")).await.unwrap().id;
        faulty.arm("delete", When::Before, 1);
        host.destroy_session(&id).await.unwrap_err();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while host.get_session(&id).await.is_ok() {
            assert!(std::time::Instant::now() < deadline, "the janitor never tried again");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(faulty.real.volumes().unwrap().is_empty());
    });
}

#[test]
fn a_caller_that_goes_away_leaves_nothing_half_done() {
    with_faults(|host, faulty| async move {
        let id: SessionId = "s".parse().unwrap();
        // Polled once, so that the work has begun, and dropped. A quick host is done by then; mostly it is not.
        let mut create = Box::pin(host.create_session(spec("s")));
        poll_once(create.as_mut()).await;
        drop(create);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        // A session that is still being created can be seen, but has no volume yet.
        while host.get_session(&id).await.map_or(true, |session| session.state != SessionState::Active) {
            assert!(std::time::Instant::now() < deadline, "it was never finished");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(faulty.real.volumes().unwrap(), std::slice::from_ref(&id));
        host.destroy_session(&id).await.unwrap();
    });
}

/// Polls a future once.
async fn poll_once<F: Future + Unpin>(mut future: F) {
    std::future::poll_fn(|context| {
        let _ = std::pin::Pin::new(&mut future).poll(context);
        std::task::Poll::Ready(())
    })
    .await;
}
