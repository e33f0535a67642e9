//! What the host can do to a command in a box.

use std::sync::Arc;

use sandbar_core::{Error, ErrorCode, Result, TerminalSize};
use tokio_util::sync::CancellationToken;

use super::InitLink;
use crate::{cgroup::CommandGroup, command::Control, protocol::Request};

#[derive(Debug)]
pub(super) struct CommandControl {
    pub(super) link: Arc<InitLink>,
    pub(super) number: u64,
    pub(super) pid: u32,
    pub(super) has_terminal: bool,
    /// `None` where init keeps the processes of a command together.
    pub(super) group: Option<Arc<CommandGroup>>,
    /// Cancelled when it is killed: nobody waits for its output any more.
    pub(super) killed: CancellationToken,
}

impl Control for CommandControl {
    fn signal(&self, signal: i32) -> Result<()> {
        if rustix::process::Signal::from_named_raw(signal).is_none() {
            return Err(Error::invalid("signal", format!("signal {signal} does not exist"))
                .with_hint("use a number between 1 and 31"));
        }
        if !self.link.is_running(self.number) {
            return Err(exited(self.pid));
        }
        self.link.tell(&Request::Signal { number: self.number, signal })
    }

    fn kill(&self) {
        let outcome = match &self.group {
            Some(group) => group.kill().map_err(|error| Error::io("end a command's processes", error)),
            None => self.link.tell(&Request::Kill { number: self.number }),
        };
        // When the whole box is gone, so is the command.
        if let Err(error) = outcome
            && !self.link.is_gone()
        {
            tracing::warn!(error = error.chain(), "could not end a command's processes");
        }
        self.killed.cancel();
    }

    fn resize(&self, size: TerminalSize) -> Result<()> {
        if !self.has_terminal {
            return Err(Error::new(ErrorCode::InvalidState, "the command has no terminal")
                .with_hint("ask for one when you start it"));
        }
        if !self.link.is_running(self.number) {
            return Err(exited(self.pid));
        }
        self.link.tell(&Request::Resize { number: self.number, size })
    }
}

fn exited(pid: u32) -> Error {
    Error::new(ErrorCode::ProcessNotFound, format!("process {pid} has exited"))
}
