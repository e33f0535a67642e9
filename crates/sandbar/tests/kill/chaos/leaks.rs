//! Leaks of a host, observed from outside: processes, cgroups, mounts, loop devices, ports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use sandbar_core::SessionState;
use sandbar_testing::{TestServer, eventually};

use super::{
    book::Book,
    packs::wait_for_packs,
    ports::{ListeningSocket, assert_closed},
};
use crate::world::World;

/// Time for dying processes to disappear.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Resource counts of a running host. Taken right after the start, before any session is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    mounts: usize,
    loop_devices: usize,
    processes: usize,
    groups: usize,
}

impl Footprint {
    pub(super) fn of(world: &World, server: &TestServer) -> Self {
        let place = world.storage.scratch();
        let text = place.to_string_lossy().into_owned();
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", server.pid())).unwrap();
        Self {
            mounts: mounts.lines().filter(|line| line.contains(&text)).count(),
            loop_devices: loop_devices(place),
            processes: processes(world).len(),
            groups: groups(world),
        }
    }

    /// Waits until a new host holds no more than this. Leftovers of an earlier host may take time
    /// to disappear.
    pub(super) fn wait_for(&self, world: &World, server: &TestServer) {
        let deadline = Instant::now() + CLEANUP_TIMEOUT;
        loop {
            let now = Self::of(world, server);
            if now == *self {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{now:?} instead of {self:?}: {:#?}",
                processes(world)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Processes and ports that a killed host has left. The box of a paused session is frozen and may
/// live until the next host ends it.
///
/// Network namespaces need no check of their own: they end with their last process.
pub(super) struct Remains {
    processes: Processes,
    pub(super) ports: BTreeSet<ListeningSocket>,
}

impl Remains {
    /// Finds the processes that run while there is no host.
    pub(super) fn of(world: &World, ports: BTreeSet<ListeningSocket>) -> Self {
        Self {
            processes: processes(world),
            ports,
        }
    }

    /// Returns the number of frozen processes, judged by their wait channel (it differs between
    /// cgroup v1 and v2); for the report only.
    pub(super) fn frozen(&self) -> usize {
        let waits_for = |place: &Path| fs::read_to_string(place.join("wchan")).unwrap_or_default();
        let is_frozen = |place: &Path| {
            ["refrigerator", "get_signal"]
                .iter()
                .any(|sign| waits_for(place).contains(sign))
        };
        self.processes
            .keys()
            .filter(|(place, _)| is_frozen(place))
            .count()
    }

    /// Checks that nothing outlives the start of the next host.
    pub(super) fn assert_gone(&self, world: &World) {
        let is_gone = || {
            processes(world)
                .keys()
                .all(|process| !self.processes.contains_key(process))
        };
        eventually("the next host has ended what ran", is_gone);
        assert_closed(&self.ports);
    }
}

/// Returns the number of loop devices on files below `path`.
fn loop_devices(path: &Path) -> usize {
    let devices = fs::read_dir("/sys/block").unwrap().filter_map(Result::ok);
    let backing =
        |device: fs::DirEntry| fs::read_to_string(device.path().join("loop/backing_file")).ok();
    devices
        .filter_map(backing)
        .filter(|file| Path::new(file.trim()).starts_with(path))
        .count()
}

/// Returns the name of the host's cgroup, derived from its data directory.
fn group_name(world: &World) -> String {
    let place = world.data_dir().canonicalize().unwrap();
    format!(
        "sandbar-{}",
        &blake3::hash(place.as_os_str().as_encoded_bytes()).to_hex()[..16]
    )
}

/// Returns the number of cgroups of the host in all hierarchies.
fn groups(world: &World) -> usize {
    let name = group_name(world);
    let mut found = 0;
    let mut places = vec![Path::new("/sys/fs/cgroup").to_owned()];
    while let Some(place) = places.pop() {
        // A group may disappear during the scan.
        for entry in fs::read_dir(&place)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found += usize::from(
                    entry
                        .path()
                        .components()
                        .any(|part| part.as_os_str() == name.as_str()),
                );
                places.push(entry.path());
            }
        }
    }
    found
}

/// Command lines of processes by pid and start time, which distinguishes reused pids.
type Processes = BTreeMap<(PathBuf, String), String>;

/// Returns the processes of the host and its sessions: those in its cgroups, those that name its
/// data directory, and those with their root in its storage. Only these could keep a namespace or a
/// port.
fn processes(world: &World) -> Processes {
    let (group, data) = (
        group_name(world),
        world.storage.scratch().to_string_lossy().into_owned(),
    );
    let mut found = Processes::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let place = entry.path();
        let is_self = place.ends_with(std::process::id().to_string());
        if is_self
            || !entry
                .file_name()
                .to_string_lossy()
                .bytes()
                .all(|byte| byte.is_ascii_digit())
        {
            continue;
        }
        let file = |name: &str| {
            fs::read(place.join(name)).map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        let link = |name: &str| {
            fs::read_link(place.join(name)).map(|link| link.to_string_lossy().into_owned())
        };
        let signs = [file("environ"), file("cmdline"), link("root"), link("cwd")];
        let ours = signs.into_iter().flatten().any(|sign| sign.contains(&data))
            || file("cgroup").is_ok_and(|groups| groups.contains(&group));
        if ours {
            let (began, command) = (
                began(&file("stat").unwrap_or_default()),
                file("cmdline").unwrap_or_default(),
            );
            found.insert((place, began), command);
        }
    }
    found
}

/// Returns the start time of a process: the 22nd field of `stat`. The second, its name, may contain
/// spaces and ends with `)`.
fn began(stat: &str) -> String {
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').nth(19).unwrap_or_default().to_owned()
}

/// Checks that a stopped host left only the data of the sessions in the book.
pub(super) fn assert_only_data_is_left(world: &World, sessions: &Book<'_>) {
    eventually("its processes are gone", || processes(world).is_empty());
    eventually("its cgroups are gone", || groups(world) == 0);
    eventually("its loop devices are gone", || {
        loop_devices(world.storage.scratch()) == world.own_loop_devices()
    });
    rows(world, sessions);
    wait_for_packs(world, sessions);
    let storage = sandbar_storage::open(&world.storage.config)
        .unwrap()
        .storage;
    let mut here = sessions.clone();
    here.retain(|_, expected| expected.state != SessionState::Hibernated);
    assert_eq!(
        storage.volumes().unwrap().iter().collect::<Vec<_>>(),
        here.keys().copied().collect::<Vec<_>>()
    );
    for (id, expected) in here {
        let mut stored: Vec<String> = storage
            .snapshots(id)
            .unwrap()
            .into_iter()
            .map(|snapshot| snapshot.name.to_string())
            .collect();
        let mut known: Vec<String> = expected
            .snapshots
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        stored.sort();
        known.sort();
        assert_eq!(stored, known, "stored snapshots of {id}");
    }
    storage.close().unwrap();
}

/// Checks that the state database holds rows of the sessions in the book only.
fn rows(world: &World, sessions: &Book<'_>) {
    let database = Connection::open(world.data_dir().join("state.db")).unwrap();
    let count = |sql| {
        let rows: i64 = database.query_one(sql, [], |row| row.get(0)).unwrap();
        usize::try_from(rows).unwrap()
    };
    assert_eq!(count("SELECT count(*) FROM intent"), 0, "intents");
    assert_eq!(count("SELECT count(*) FROM saved_base"), 0, "saved bases");
    assert_eq!(
        count("SELECT count(*) FROM session"),
        sessions.len(),
        "sessions"
    );
    let snapshots: usize = sessions
        .values()
        .map(|expected| expected.snapshots.len())
        .sum();
    assert_eq!(
        count("SELECT count(*) FROM snapshot"),
        snapshots,
        "snapshots"
    );
    let strays = "SELECT count(*) FROM tool_call WHERE session NOT IN (SELECT id FROM session)";
    assert_eq!(count(strays), 0, "answers of tool calls of no session");
    let processes: usize = sessions
        .values()
        .map(|expected| expected.processes.len())
        .sum();
    assert_eq!(
        count("SELECT count(*) FROM process"),
        processes,
        "processes"
    );
    let packs = sessions
        .values()
        .filter(|expected| expected.state == SessionState::Hibernated)
        .count();
    assert_eq!(
        count("SELECT count(*) FROM session WHERE pack IS NOT NULL"),
        packs,
        "sessions in a pack"
    );
}
