//! What this machine can do, found out by trying.
//!
//! Each probe does the thing in question in a corner of its own — a scratch directory, a private mount namespace, a
//! child process — and takes it away again. None needs a running host.

mod finding;
mod kernel;
mod programs;
mod scratch;
mod storage;
mod syscall;

pub(crate) use finding::{Finding, Status};

use std::path::Path;

/// Every probe, grouped the way people ask.
pub(crate) fn examine(data_dir: &Path, pool: Option<&str>) -> Vec<(&'static str, Vec<Finding>)> {
    vec![
        ("storage", vec![storage::btrfs(data_dir), storage::zfs(pool), storage::local_disk(data_dir)]),
        ("runtime", vec![programs::none(), programs::native(), programs::gvisor()]),
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
    ]
}
