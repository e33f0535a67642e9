//! Memory limit of sandboxes that request none.

use std::{fs, path::Path};

use sandbar_core::ByteCount;

/// Lower bound of [`default_memory`], so that a small machine can still run a compiler.
const MIN_DEFAULT_MEMORY: ByteCount = ByteCount::mib(512);

/// Returns the memory limit of sandboxes that request none: half of what this process may use, and
/// at least 512 MiB. `None` if the size of the machine is unknown.
pub fn default_memory() -> Option<ByteCount> {
    let total = memory_total(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let available = own_limit().map_or(total, |limit| limit.min(total));
    Some(ByteCount(available / 2).max(MIN_DEFAULT_MEMORY))
}

/// Returns `MemTotal` of `/proc/meminfo` in bytes.
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the memory limit of this process's v2 cgroup, as in a container or a systemd unit.
fn own_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limits = Path::new("/sys/fs/cgroup").join(own).join("memory.max");
    fs::read_to_string(limits).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_memory_is_at_most_half_of_the_machine() {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
        let total = memory_total(&meminfo).unwrap();
        let default = default_memory().unwrap();
        assert!(default <= ByteCount(total / 2).max(MIN_DEFAULT_MEMORY));
        assert!(default >= MIN_DEFAULT_MEMORY);
        assert_eq!(
            memory_total("MemTotal:        8048944 kB\nMemFree: 1 kB\n"),
            Some(8_048_944 * 1024)
        );
        assert_eq!(memory_total("MemFree: 1 kB\n"), None);
    }
}
