//! How large this machine is: what a sandbox has that is not limited.

use std::{fs, sync::LazyLock, thread};

/// The machine sandboxes run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) cpus: u32,
    /// Bytes.
    pub(super) memory: u64,
}

static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine {
    cpus: thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
    memory: fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text)).unwrap_or(0),
});

impl Machine {
    pub(super) fn this() -> Self {
        *MACHINE
    }
}

/// The first line of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(total("MemTotal:        8048944 kB\nMemFree: 1 kB\n"), Some(8_048_944 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(Machine::this().memory > 0 && Machine::this().cpus > 0);
    }
}
