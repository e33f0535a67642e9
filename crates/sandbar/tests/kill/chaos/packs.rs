//! Packs of hibernated sessions in the object store.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use sandbar_core::SessionState;

use super::book::Book;
use crate::world::World;

/// Time for the janitor to delete packs.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns all packs, complete or not.
fn pack_directories(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.data_dir().join("packs"))
        .into_iter()
        .flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns the complete packs.
pub(super) fn whole_packs(world: &World) -> BTreeSet<PathBuf> {
    pack_directories(world)
        .into_iter()
        .filter(|pack| pack.join("manifest.json").exists())
        .collect()
}

/// Returns the sessions of all packs, complete or not.
fn sessions_in_packs(world: &World) -> Vec<String> {
    let name = |pack: PathBuf| pack.file_name().unwrap().to_string_lossy().into_owned();
    let names = pack_directories(world).into_iter().map(name);
    let mut sessions: Vec<String> = names
        .map(|name| name.rsplit_once('.').unwrap().0.to_owned())
        .collect();
    sessions.sort();
    sessions
}

/// Waits until each hibernated session has one pack and no other session has any. The janitor
/// deletes what a kill has left.
pub(super) fn wait_for_packs(world: &World, sessions: &Book<'_>) {
    let away = sessions
        .iter()
        .filter(|(_, expected)| expected.state == SessionState::Hibernated);
    let away: Vec<String> = away.map(|(id, _)| id.to_string()).collect();
    let deadline = Instant::now() + CLEANUP_TIMEOUT;
    loop {
        let found = sessions_in_packs(world);
        if found == away {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "packs of {found:?}, and hibernated are {away:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
