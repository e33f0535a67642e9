//! Size of this machine, which is reported for a sandbox without limits.

use std::{fs, sync::LazyLock, thread};

/// Size of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) cpus: u32,
    /// Bytes.
    pub(super) memory: u64,
}

static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine {
    cpus: thread::available_parallelism()
        .map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
    memory: fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total(&text))
        .unwrap_or(0),
});

impl Machine {
    pub(super) fn this() -> Self {
        *MACHINE
    }
}

/// Returns `MemTotal` of `/proc/meminfo` in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mem_total_is_parsed_in_bytes() {
        assert_eq!(
            total("MemTotal:        8048944 kB\nMemFree: 1 kB\n"),
            Some(8_048_944 * 1024)
        );
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(Machine::this().memory > 0 && Machine::this().cpus > 0);
    }
}
