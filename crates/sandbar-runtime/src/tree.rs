//! A started process and everything it started in turn.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use sandbar_core::{Error, ErrorCode, Result};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{cgroup::Group, process_tree};

/// The leader of a command's process tree. Its pid means this process, and no other, until it has been waited for.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    handle: AsyncFd<OwnedFd>,
    waited_for: Mutex<bool>,
}

impl Process {
    pub(crate) fn new(pid: u32, handle: OwnedFd) -> io::Result<Self> {
        // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the registration.
        let handle = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }?;
        Ok(Self { pid, handle, waited_for: Mutex::new(false) })
    }

    /// Waits until the process has ended, and reaps it. Dropping the future loses nothing.
    pub(crate) async fn exited(&self) -> io::Result<WaitIdStatus> {
        loop {
            let mut ready = self.handle.readable().await?;
            let mut waited_for = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            if let Some(status) = waitid(WaitId::PidFd(self.handle.as_fd()), options)? {
                *waited_for = true;
                return Ok(status);
            }
            drop(waited_for);
            ready.clear_ready();
        }
    }

    pub(crate) fn signal_group(&self, signal: i32) -> Result<()> {
        // The lock keeps the pid from being reaped, and so from being given to another process, between check and call.
        let waited_for = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        if *waited_for {
            return Err(Error::new(ErrorCode::ProcessNotFound, format!("process {} has exited", self.pid)));
        }
        let number = rustix::process::Signal::from_named_raw(signal).ok_or_else(|| {
            Error::invalid("signal", format!("signal {signal} does not exist"))
                .with_hint("use a number between 1 and 31")
        })?;
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        rustix::process::kill_process_group(pid, number)
            .map_err(|errno| Error::io(format!("signal process {}", self.pid), errno.into()))
    }
}

/// Everything one command started.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Cgroup(Arc<Group>),
    /// Without cgroups: what `/proc` shows below this pid.
    Session(u32),
}

impl Tree {
    /// Ends all of it.
    pub(crate) fn kill(&self) {
        match self {
            Self::Cgroup(group) => {
                if let Err(error) = group.kill() {
                    tracing::warn!(%error, "could not end a command's processes");
                }
            }
            Self::Session(leader) => process_tree::kill(*leader),
        }
    }

    /// Lets go of the tree when nothing of it runs any more.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Cgroup(group) => group.remove().is_ok(),
            Self::Session(leader) => !process_tree::is_alive(*leader),
        }
    }
}
