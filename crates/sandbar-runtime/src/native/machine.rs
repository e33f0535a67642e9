//! Size of the machine, and the files that show a box its own instead.
//!
//! The files are static: they show the limits of the box as an idle machine of that size. What a
//! box uses of its limits is not in them.

use std::{fmt::Write as _, fs, io};

/// Size of the machine as of `/proc`.
#[derive(Debug)]
pub(super) struct Machine {
    memory: u64,
    cpus: u64,
    cpuinfo: String,
}

impl Machine {
    /// Reads `proc`, the `/proc` of the template.
    pub(super) fn read() -> io::Result<Self> {
        let cpuinfo = fs::read_to_string("proc/cpuinfo")?;
        let stat = fs::read_to_string("proc/stat")?;
        Ok(Self {
            memory: total_memory(&fs::read_to_string("proc/meminfo")?).unwrap_or_default(),
            cpus: count_cpus(&stat),
            cpuinfo,
        })
    }

    /// Returns `/proc/meminfo` of a box whose memory is limited to this many bytes.
    pub(super) fn meminfo(&self, limit: Option<u64>) -> String {
        let total = limit.unwrap_or(self.memory).min(self.memory) / 1024;
        let mut text = String::with_capacity(1024);
        for (name, value) in [
            ("MemTotal", total),
            ("MemFree", total),
            ("MemAvailable", total),
            ("Buffers", 0),
            ("Cached", 0),
            ("SwapCached", 0),
            ("Active", 0),
            ("Inactive", 0),
            ("SwapTotal", 0),
            ("SwapFree", 0),
            ("Dirty", 0),
            ("Writeback", 0),
            ("AnonPages", 0),
            ("Mapped", 0),
            ("Shmem", 0),
            ("Slab", 0),
            ("SReclaimable", 0),
            ("SUnreclaim", 0),
            ("CommitLimit", total),
            ("Committed_AS", 0),
        ] {
            let _ = writeln!(text, "{:<16}{value:>8} kB", format!("{name}:"));
        }
        text
    }

    /// Returns `/proc/stat` of a box with this many CPUs that started at `boot_time`.
    pub(super) fn stat(&self, limit: Option<u64>, boot_time: u64) -> String {
        let idle = "0 0 0 0 0 0 0 0 0 0";
        let mut text = format!("cpu  {idle}\n");
        for cpu in 0..self.visible_cpus(limit) {
            let _ = writeln!(text, "cpu{cpu} {idle}");
        }
        let _ = write!(
            text,
            "intr 0\nctxt 0\nbtime {boot_time}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
        );
        text
    }

    /// Returns `/proc/cpuinfo` of a box with this many CPUs: that of the first CPUs of the machine.
    pub(super) fn cpuinfo(&self, limit: u64) -> String {
        let wanted = usize::try_from(self.visible_cpus(Some(limit))).unwrap_or(usize::MAX);
        let blocks = self.cpuinfo.split_inclusive("\n\n");
        let (cpus, rest): (Vec<&str>, Vec<&str>) =
            blocks.partition(|block| block.starts_with("processor"));
        cpus.into_iter().take(wanted).chain(rest).collect()
    }

    fn visible_cpus(&self, limit: Option<u64>) -> u64 {
        limit.unwrap_or(self.cpus).clamp(1, self.cpus.max(1))
    }
}

/// Returns `MemTotal` in bytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Counts the lines `cpuN` of `/proc/stat`.
fn count_cpus(stat: &str) -> u64 {
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    stat.lines().filter(is_cpu).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            memory: 8 << 30,
            cpus: count_cpus("cpu  1 2\ncpu0 1 2\ncpu1 1 2\ncpu2 1\nintr 5\n"),
            cpuinfo:
                "processor\t: 0\nflags\t: a\n\nprocessor\t: 1\n\nprocessor\t: 2\n\nHardware\t: x\n"
                    .to_owned(),
        }
    }

    #[test]
    fn files_show_the_limits_and_at_most_the_machine() {
        let machine = machine();
        assert_eq!(machine.cpus, 3);
        for (limit, shown) in [
            (None, 8 << 30),
            (Some(1 << 30), 1 << 30),
            (Some(9 << 30), 8 << 30),
        ] {
            assert_eq!(total_memory(&machine.meminfo(limit)), Some(shown));
        }
        for (limit, shown) in [(None, 3), (Some(2), 2), (Some(9), 3)] {
            assert_eq!(count_cpus(&machine.stat(limit, 7)), shown);
        }
        assert!(machine.stat(None, 7).contains("\nbtime 7\n"));
        assert_eq!(
            machine.cpuinfo(1),
            "processor\t: 0\nflags\t: a\n\nHardware\t: x\n"
        );
        assert_eq!(machine.cpuinfo(9), machine.cpuinfo);
    }
}
