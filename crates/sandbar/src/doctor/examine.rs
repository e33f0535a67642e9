//! The probes in the order of the report.

use sandbar_core::Result;
use sandbar_host::{HostConfig, RuntimeReport};

use super::{Finding, kernel, runtime, storage};

/// Result of all probes.
#[derive(Debug)]
pub(crate) struct Examination {
    /// Findings by topic.
    pub(crate) groups: Vec<(&'static str, Vec<Finding>)>,
    /// Whether a host with this configuration could start.
    pub(crate) usable: bool,
}

/// Runs all probes.
pub(crate) fn examine(config: &HostConfig) -> Result<Examination> {
    let (data_dir, pool) = (&config.data_dir, config.pool_name.as_deref());
    let storage = vec![
        storage::btrfs(data_dir),
        storage::zfs(pool),
        storage::local_disk(data_dir),
    ];
    let runtimes = runtime::try_all(config)?;
    let usable = storage::suffices(config.storage_backend, &storage)
        && runtimes.iter().any(RuntimeReport::suffices);
    let egress = runtime::egress(&runtimes);
    let limits = runtime::default_limits(&runtimes, config);
    let groups = vec![
        ("storage", storage),
        (
            "runtime",
            runtimes.into_iter().map(runtime::finding).collect(),
        ),
        ("network", vec![egress]),
        ("limits", vec![limits]),
        (
            "kernel",
            vec![
                kernel::privileges(),
                kernel::mount_namespace(),
                kernel::overlayfs(),
                kernel::user_namespaces(),
                kernel::cgroups(),
                kernel::oom_score(),
                kernel::landlock(),
                kernel::openat2(),
            ],
        ),
    ];
    Ok(Examination { groups, usable })
}
