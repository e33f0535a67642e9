//! Which storage works here: each backend is opened for real in a scratch directory beside the data.

use std::path::Path;

use sandbar_core::{ByteCount, StorageKind};
use sandbar_host::StorageChoice;
use sandbar_storage::{StorageConfig, StorageFacts, open};

use super::{
    Finding, Status,
    finding::abilities,
    scratch::{directory_in, find_program, in_private_mounts, nearest_directory, run},
};

/// Bounds the image a btrfs probe makes; it is sparse and gone a moment later.
const PROBE_IMAGE: ByteCount = ByteCount::mib(256);

/// The data directory on btrfs, or an image of our own on whatever it is on.
pub(crate) fn btrfs(data_dir: &Path) -> Finding {
    const NAME: &str = "btrfs";
    match open_in_scratch(StorageKind::Btrfs, data_dir) {
        Ok(facts) => Finding::ok(NAME, facts),
        Err((why, fix)) => Finding::missing(
            NAME,
            why,
            fix.unwrap_or_else(|| "run as root, with btrfs-progs and a kernel that has btrfs and loop devices".into()),
        ),
    }
}

/// Plain directories work wherever the data directory can be written; reflinks make them fast.
pub(crate) fn local_disk(data_dir: &Path) -> Finding {
    const NAME: &str = "local-disk";
    match open_in_scratch(StorageKind::LocalDisk, data_dir) {
        Ok(facts) => Finding::ok(NAME, facts),
        Err((why, fix)) => {
            Finding::missing(NAME, why, fix.unwrap_or_else(|| "give --data-dir a directory you can write".into()))
        }
    }
}

/// Whether the storage the configuration asks for can be had.
pub(crate) fn suffices(choice: StorageChoice, findings: &[Finding]) -> bool {
    findings.iter().filter(|finding| finding.status == Status::Ok).any(|finding| match choice {
        StorageChoice::Auto => true,
        StorageChoice::Named(kind) => finding.name == kind.as_str(),
    })
}

fn describe(facts: &StorageFacts) -> String {
    abilities(
        &facts.description,
        [
            ("constant-time snapshots", &facts.constant_time_snapshots),
            ("layers", &facts.layered),
            ("quota", &facts.quota),
        ],
    )
}

/// Opens a backend in a directory of its own and says what it can do; the complaint and the fix when that does not work.
fn open_in_scratch(kind: StorageKind, data_dir: &Path) -> Result<String, (String, Option<String>)> {
    let place = nearest_directory(data_dir);
    let plain = |why: String| (why, None);
    let scratch =
        directory_in(&place).map_err(|error| plain(format!("`{}` cannot be written: {error}", place.display())))?;
    let config = StorageConfig {
        choice: Some(kind),
        directory: scratch.path().to_owned(),
        zfs: None,
        pool_image_limit: Some(PROBE_IMAGE),
    };
    let attempt = || {
        let opened = open(&config).map_err(|error| (error.chain(), error.hint().map(str::to_owned)))?;
        let facts = describe(opened.storage.facts());
        opened.storage.close().map_err(|error| (error.chain(), None))?;
        // The data directory is what people know; the scratch directory is gone when they read this.
        Ok(facts.replace(&*scratch.path().to_string_lossy(), &data_dir.to_string_lossy()))
    };
    // Who may not have private mounts may not mount at all; the backend then says what that costs.
    match in_private_mounts(|| Ok(attempt())) {
        Ok(outcome) => outcome,
        Err(_) => attempt(),
    }
}

/// A pool that the `zfs` programs see.
pub(crate) fn zfs(pool: Option<&str>) -> Finding {
    const NAME: &str = "zfs";
    if find_program("zpool").is_none() || find_program("zfs").is_none() {
        return Finding::missing(NAME, "`zfs` and `zpool` are not installed", "apt-get install zfsutils-linux");
    }
    let listed = match run("zpool", &["list", "-H", "-o", "name,health"]) {
        Ok(listed) => listed,
        Err(why) => return Finding::missing(NAME, why, "load the ZFS module (`modprobe zfs`), then import a pool"),
    };
    let pools: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once('\t')).collect();
    let wanted = match pool {
        Some(pool) => pools.iter().find(|(name, _)| *name == pool),
        None => pools.first(),
    };
    match (wanted, pool) {
        (Some((name, health)), _) if *health == "ONLINE" => Finding::ok(NAME, format!("pool `{name}` is {health}")),
        (Some((name, health)), _) => Finding::missing(
            NAME,
            format!("pool `{name}` is {health}"),
            format!("look at `zpool status {name}` and mend what it names"),
        ),
        (None, Some(pool)) => Finding::missing(
            NAME,
            format!("there is no pool `{pool}`"),
            format!("import it (`zpool import {pool}`) or set `pool_name`"),
        ),
        (None, None) => {
            Finding::missing(NAME, "there is no pool", "make one: `zpool create tank DEVICE`, then set `pool_name`")
        }
    }
}
