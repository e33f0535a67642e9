use std::{collections::BTreeMap, fs, path::PathBuf};

use jiff::Timestamp;
use sandbar_core::{BaseName, ByteCount, SessionId, SnapshotName};
use sandbar_storage::{
    BaseLayer, BaseRecord, BaseSource, ForkPoint, LayerDirectory, Storage, VolumeSpec, ZfsConfig,
    ZfsStorage,
};
use sandbar_testing::ZfsPool;

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn snap(name: &str) -> SnapshotName {
    SnapshotName::new(name).unwrap()
}

pub(crate) fn at(name: &str) -> ForkPoint {
    ForkPoint::Snapshot(snap(name))
}

pub(crate) fn base() -> BaseName {
    BaseName::new("b").unwrap()
}

pub(crate) fn config(pool: &str) -> ZfsConfig {
    ZfsConfig {
        pool: pool.to_owned(),
        bases_dataset: None,
        sessions_dataset: None,
    }
}

pub(crate) fn record(name: &BaseName, lent: &[(&str, &str)]) -> BaseRecord {
    let own = BaseLayer {
        mount_point: "/".into(),
        directory: LayerDirectory::Own,
    };
    let lent = lent.iter().map(|(mount_point, source)| BaseLayer {
        mount_point: mount_point.into(),
        directory: LayerDirectory::Host(source.into()),
    });
    BaseRecord {
        version: BaseRecord::VERSION,
        name: name.clone(),
        source: BaseSource::Directory,
        created: Timestamp::now(),
        layers: std::iter::once(own).chain(lent).collect(),
        env: BTreeMap::new(),
        image: None,
        size: ByteCount(0),
    }
}

/// Makes a base `b` with one file.
pub(crate) fn make_base(store: &ZfsStorage) {
    let staged = store.stage_base(&base()).unwrap();
    fs::write(staged.rootfs().join("hello"), "from the base").unwrap();
    store.commit_base(staged, &record(&base(), &[])).unwrap();
}

/// A pool with a store and a base `b`.
pub(crate) struct Fixture {
    // Before the pool, so that it is dropped first.
    pub(crate) store: ZfsStorage,
    pub(crate) pool: ZfsPool,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::of_size(ByteCount::mib(512))
    }

    pub(crate) fn of_size(size: ByteCount) -> Self {
        let pool = ZfsPool::new(size.get()).unwrap();
        let store = ZfsStorage::open(&config(pool.name())).unwrap();
        make_base(&store);
        Self { store, pool }
    }

    /// Opens the pool anew, as after a crash.
    pub(crate) fn reopen(&mut self) {
        self.store = ZfsStorage::open(&config(self.pool.name())).unwrap();
    }

    pub(crate) fn create(&self, volume: &str) {
        self.store
            .create(
                &id(volume),
                &VolumeSpec {
                    base: base(),
                    quota: None,
                },
            )
            .unwrap();
    }

    pub(crate) fn snapshot(&self, volume: &str, name: &str) {
        self.store.snapshot(&id(volume), &snap(name)).unwrap();
    }

    pub(crate) fn fork(&self, source: &str, point: &ForkPoint, volume: &str) {
        self.store
            .fork(&id(source), point, &id(volume), None)
            .unwrap();
    }

    pub(crate) fn path(&self, volume: &str, file: &str) -> PathBuf {
        self.store.mount(&id(volume)).unwrap().join(file)
    }

    pub(crate) fn write(&self, volume: &str, file: &str, content: &str) {
        fs::write(self.path(volume, file), content).unwrap();
    }

    pub(crate) fn read(&self, volume: &str, file: &str) -> Option<String> {
        fs::read_to_string(self.path(volume, file)).ok()
    }

    pub(crate) fn snapshots(&self, volume: &str) -> Vec<String> {
        self.store
            .snapshots(&id(volume))
            .unwrap()
            .into_iter()
            .map(|snapshot| snapshot.name.to_string())
            .collect()
    }

    pub(crate) fn volumes(&self) -> Vec<String> {
        self.store
            .volumes()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Datasets and snapshots below the sessions, without the pool's name, as ZFS lists them.
    pub(crate) fn on_pool(&self) -> Vec<String> {
        let sessions = format!("{}/sessions", self.pool.name());
        let listed = self
            .pool
            .zfs(&["list", "-H", "-t", "all", "-o", "name", "-r", &sessions])
            .unwrap();
        let prefix = format!("{sessions}/");
        listed
            .lines()
            .filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }

    pub(crate) fn dataset(&self, name: &str) -> String {
        format!("{}/sessions/{name}", self.pool.name())
    }

    /// The full name of a snapshot of a volume, by its property.
    pub(crate) fn full_name(&self, name: &str) -> String {
        let sessions = format!("{}/sessions", self.pool.name());
        let listed = self
            .pool
            .zfs(&[
                "get",
                "-r",
                "-H",
                "-o",
                "name,value",
                "-s",
                "local",
                "sandbar:snapshot",
                &sessions,
            ])
            .unwrap();
        let wanted = format!("\"name\":\"{name}\"");
        let line = listed.lines().find(|line| line.contains(&wanted)).unwrap();
        line.split('\t').next().unwrap().to_owned()
    }
}
