//! A process, as `/proc` shows it.

use std::fs;

/// One process: its number and its start, which together are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostProcess {
    pid: u32,
    started: u64,
}

impl HostProcess {
    pub(crate) fn of(pid: u32) -> Self {
        let started = started(pid).unwrap();
        Self { pid, started }
    }

    /// Returns whether it still runs.
    pub(crate) fn runs(self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Restarts the measurement of [`peak_mib`](Self::peak_mib).
    pub(crate) fn reset_peak(self) {
        let _ = fs::write(format!("/proc/{}/clear_refs", self.pid), "5");
    }

    /// Returns the peak of its resident memory.
    pub(crate) fn peak_mib(self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or(0.0) / 1024.0
    }

    /// Returns the number of its open descriptors.
    pub(crate) fn descriptors(self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, Iterator::count)
    }

    /// Returns its mounts that name `text`.
    pub(crate) fn mounts_of(self, text: &str) -> Vec<String> {
        let mounts =
            fs::read_to_string(format!("/proc/{}/mountinfo", self.pid)).unwrap_or_default();
        let named = mounts.lines().filter(|line| line.contains(text));
        named.map(str::to_owned).collect()
    }
}

/// Returns the start time of a process that runs and is no zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(started)
}

/// Returns the processes of the machine whose environment or command line has `text`.
pub(crate) fn processes_of(text: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let has = |pid: &str, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && *pid != own)
        .filter(|pid| has(pid, "environ") || has(pid, "cmdline"))
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{pid} {}", name.trim())
        })
        .collect()
}
