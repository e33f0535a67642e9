//! What this machine can do, found out by trying.
//!
//! Each probe does the thing in question in a corner of its own — a scratch directory, a private mount namespace, a
//! child process — and takes it away again. None needs a running host.

mod finding;
mod kernel;
mod runtime;
mod scratch;
mod storage;
mod syscall;

pub(crate) use finding::{Finding, Status};

use sandbar_core::Result;
use sandbar_host::{HostConfig, RuntimeReport};

/// What was found, and whether a host could start.
#[derive(Debug)]
pub(crate) struct Examination {
    /// Every finding, grouped the way people ask.
    pub(crate) groups: Vec<(&'static str, Vec<Finding>)>,
    /// Storage and runtime the configuration asks for can be had.
    pub(crate) usable: bool,
}

/// Tries everything.
pub(crate) fn examine(config: &HostConfig) -> Result<Examination> {
    let (data_dir, pool) = (&config.data_dir, config.pool_name.as_deref());
    let storage = vec![storage::btrfs(data_dir), storage::zfs(pool), storage::local_disk(data_dir)];
    let runtimes = runtime::try_all(config)?;
    let usable = storage::suffices(config.storage_backend, &storage) && runtimes.iter().any(RuntimeReport::suffices);
    let egress = runtime::egress(&runtimes);
    let groups = vec![
        ("storage", storage),
        ("runtime", runtimes.into_iter().map(runtime::finding).collect()),
        ("network", vec![egress]),
        (
            "kernel",
            vec![
                kernel::privileges(),
                kernel::mount_namespace(),
                kernel::overlayfs(),
                kernel::user_namespaces(),
                kernel::cgroups(),
                kernel::landlock(),
                kernel::openat2(),
            ],
        ),
    ];
    Ok(Examination { groups, usable })
}
