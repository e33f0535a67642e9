//! Probes of the storage backends: each is opened for real in a scratch directory next to the data.

use std::path::Path;

use sandbar_core::{ByteCount, StorageKind};
use sandbar_host::StorageChoice;
use sandbar_storage::{StorageConfig, StorageFacts, open};

use super::{
    Finding, Status,
    finding::abilities,
    scratch::{directory_in, find_program, in_private_mounts, nearest_directory, run},
};

/// Size of the sparse image of the btrfs probe.
const PROBE_IMAGE_SIZE: ByteCount = ByteCount::mib(256);

/// Probes btrfs: natively if the data directory is on btrfs, else in a loop image.
pub(crate) fn btrfs(data_dir: &Path) -> Finding {
    const NAME: &str = "btrfs";
    match open_in_scratch(StorageKind::Btrfs, data_dir) {
        Ok(facts) => Finding::ok(NAME, facts),
        Err((why, fix)) => Finding::missing(
            NAME,
            why,
            fix.unwrap_or_else(|| {
                "run as root, with btrfs-progs and a kernel that has btrfs and loop devices".into()
            }),
        ),
    }
}

/// Probes plain directories, with reflinks if the file system has them.
pub(crate) fn local_disk(data_dir: &Path) -> Finding {
    const NAME: &str = "local-disk";
    match open_in_scratch(StorageKind::LocalDisk, data_dir) {
        Ok(facts) => Finding::ok(NAME, facts),
        Err((why, fix)) => Finding::missing(
            NAME,
            why,
            fix.unwrap_or_else(|| "give --data-dir a directory you can write".into()),
        ),
    }
}

/// Returns whether the configured storage works.
pub(crate) fn suffices(choice: StorageChoice, findings: &[Finding]) -> bool {
    findings
        .iter()
        .filter(|finding| finding.status == Status::Ok)
        .any(|finding| match choice {
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

/// Opens a backend in a scratch directory and returns its capabilities, or the error and its fix.
fn open_in_scratch(kind: StorageKind, data_dir: &Path) -> Result<String, (String, Option<String>)> {
    let parent = nearest_directory(data_dir);
    let plain = |why: String| (why, None);
    let scratch = directory_in(&parent)
        .map_err(|error| plain(format!("`{}` cannot be written: {error}", parent.display())))?;
    let config = StorageConfig {
        choice: Some(kind),
        directory: scratch.path().to_owned(),
        zfs: None,
        pool_image_limit: Some(PROBE_IMAGE_SIZE),
    };
    let attempt = || {
        let opened =
            open(&config).map_err(|error| (error.chain(), error.hint().map(str::to_owned)))?;
        let facts = describe(opened.storage.facts());
        opened
            .storage
            .close()
            .map_err(|error| (error.chain(), None))?;
        // The report names the data directory instead of the removed scratch directory.
        Ok(facts.replace(
            &*scratch.path().to_string_lossy(),
            &data_dir.to_string_lossy(),
        ))
    };
    // Without the privilege for a mount namespace, the backend reports its own errors.
    match in_private_mounts(|| Ok(attempt())) {
        Ok(outcome) => outcome,
        Err(_) => attempt(),
    }
}

/// Probes for a pool that the `zfs` programs see.
pub(crate) fn zfs(pool: Option<&str>) -> Finding {
    const NAME: &str = "zfs";
    if find_program("zpool").is_none() || find_program("zfs").is_none() {
        return Finding::missing(
            NAME,
            "`zfs` and `zpool` are not installed",
            "apt-get install zfsutils-linux",
        );
    }
    let listed = match run("zpool", &["list", "-H", "-o", "name,health"]) {
        Ok(listed) => listed,
        Err(why) => {
            return Finding::missing(
                NAME,
                why,
                "load the ZFS module (`modprobe zfs`), then import a pool",
            );
        }
    };
    let pools: Vec<(&str, &str)> = listed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let wanted = match pool {
        Some(pool) => pools.iter().find(|(name, _)| *name == pool),
        None => pools.first(),
    };
    match (wanted, pool) {
        (Some((name, health)), _) if *health == "ONLINE" => {
            Finding::ok(NAME, format!("pool `{name}` is {health}"))
        }
        (Some((name, health)), _) => Finding::missing(
            NAME,
            format!("pool `{name}` is {health}"),
            format!("run `zpool status {name}` and repair what it reports"),
        ),
        (None, Some(pool)) => Finding::missing(
            NAME,
            format!("pool `{pool}` does not exist"),
            format!("import it (`zpool import {pool}`) or set `pool_name`"),
        ),
        (None, None) => Finding::missing(
            NAME,
            "no pool exists",
            "create one with `zpool create tank DEVICE`, then set `pool_name`",
        ),
    }
}
