//! A command that has ended, with all it wrote.

use sandbar_runtime::{ExecEvent, ExitStatus, RunningCommand};

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
}

impl Ended {
    pub(crate) async fn of(mut command: RunningCommand) -> Self {
        let (mut stdout, mut stderr, mut status) = (Vec::new(), Vec::new(), None);
        while let Some(event) = command.next_event().await {
            assert!(status.is_none(), "an event came after the exit");
            match event {
                ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                ExecEvent::Exited(exit) => status = Some(exit),
            }
        }
        Self {
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
            status: status.expect("an exit"),
        }
    }
}
