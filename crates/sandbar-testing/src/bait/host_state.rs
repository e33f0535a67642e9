//! State of the host that an escape could change.

use std::{collections::BTreeMap, fs};

/// Switches of the kernel an intruder goes for.
const KNOBS: [&str; 11] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/net/ipv4/ip_forward",
    "/sys/kernel/uevent_helper",
];

/// The state of the host, to compare before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// Content of each switch; `None` where this machine has none.
    knobs: BTreeMap<&'static str, Option<String>>,
    /// Mounts of the calling thread's namespace.
    mounts: String,
    /// Content of the bait files.
    files: Vec<Option<String>>,
    /// Whether the process that is bait still runs.
    process_runs: bool,
}

impl HostState {
    pub(super) fn read(files: &[&std::path::Path], process_runs: bool) -> Self {
        Self {
            knobs: KNOBS
                .iter()
                .map(|path| (*path, fs::read_to_string(path).ok()))
                .collect(),
            mounts: fs::read_to_string("/proc/thread-self/mountinfo").unwrap(),
            files: files
                .iter()
                .map(|path| fs::read_to_string(path).ok())
                .collect(),
            process_runs,
        }
    }
}
