//! A process on the host that is not our child, identified so that a reused pid is not mistaken for
//! it.

use std::{
    fs, io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};

/// Limits how long a killed process may take to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// Persistent identity of a process, for a later host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    pid: i32,
    /// In clock ticks since boot.
    start_time: u64,
}

#[derive(Debug)]
pub(super) struct HostProcess {
    record: ProcessRecord,
    handle: OwnedFd,
}

impl HostProcess {
    pub(super) fn open(pid: i32) -> io::Result<Self> {
        let handle = pidfd_open(
            Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?,
            PidfdFlags::empty(),
        )?;
        let start_time = start_time(pid)?;
        Ok(Self {
            record: ProcessRecord { pid, start_time },
            handle,
        })
    }

    /// Opens the recorded process, if it still runs.
    pub(super) fn find(record: ProcessRecord) -> Option<Self> {
        Self::open(record.pid)
            .ok()
            .filter(|process| process.record == record)
    }

    pub(super) fn record(&self) -> ProcessRecord {
        self.record
    }

    pub(super) fn pid(&self) -> i32 {
        self.record.pid
    }

    pub(super) fn is_alive(&self) -> io::Result<bool> {
        self.ends_within(Duration::ZERO).map(|ended| !ended)
    }

    fn ends_within(&self, limit: Duration) -> io::Result<bool> {
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        Ok(poll(
            &mut [PollFd::new(&self.handle, PollFlags::IN)],
            Some(&limit),
        )? > 0)
    }

    /// Kills the process and waits for its exit.
    pub(super) fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            match self.ends_within(deadline.saturating_duration_since(Instant::now())) {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "killed process did not exit in time",
                    ));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads field 22 of `/proc/PID/stat`. The name in field 2 may contain `)`, so the last one ends
/// it.
fn start_time(pid: i32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat
        .rfind(')')
        .and_then(|end| stat.get(end + 1..))
        .unwrap_or_default();
    after_name
        .split_ascii_whitespace()
        .nth(19)
        .and_then(|ticks| ticks.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn process_record_with_other_start_time_is_not_found() {
        let mut child = Command::new("/bin/cat")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let process = HostProcess::open(i32::try_from(child.id()).unwrap()).unwrap();
        let record = process.record();
        assert!(process.is_alive().unwrap());
        assert!(HostProcess::find(record).is_some());
        assert!(
            HostProcess::find(ProcessRecord {
                start_time: record.start_time + 1,
                ..record
            })
            .is_none()
        );
        process.kill().unwrap();
        assert!(!process.is_alive().unwrap());
        child.wait().unwrap();
        assert!(HostProcess::find(record).is_none());
    }
}
