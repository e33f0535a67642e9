//! Connections into a box, through its init.

use std::{io, time::Duration};

use sandbar_core::{Error, ErrorCode, Result};
use tokio::time::Instant;

use super::BoxSandbox;
use crate::{Dialed, protocol::Request};

/// More than anybody waits, and no more than a clock can hold.
const LONGEST: Duration = Duration::from_hours(24);

/// On a thread that may block, inside a tokio runtime.
pub(super) fn dial(sandbox: &BoxSandbox, port: u16, patience: Duration) -> Result<Dialed> {
    if port == 0 {
        return Err(Error::invalid("port", "there is no port 0").with_hint("use a number between 1 and 65535"));
    }
    let failed = |error: io::Error| Error::io(format!("connect to port {port} of the sandbox"), error);
    let deadline = Instant::now() + patience.min(LONGEST);
    let link = &sandbox.link;
    let turn = link.turn_to_dial(deadline)?;
    let (dialed, answered) = {
        // Until the pipes are made and init is told, and no longer: a stop need not wait for the answer.
        let _not_stopped = sandbox.not_stopped()?;
        let number = sandbox.next_number();
        let pipes = sandbox.streams.for_connection(number).map_err(failed)?;
        let request = Request::Dial { number, port, pipes: pipes.place() };
        let answered = link.dial(turn, number, &request, &pipes.theirs())?;
        (pipes.into_ours(), answered)
    };
    match link.wait_for_dialed(answered, deadline)? {
        0 => Ok(dialed),
        libc::ECONNREFUSED => {
            Err(Error::new(ErrorCode::Unavailable, format!("nobody listens on port {port} in the sandbox"))
                .with_field("port")
                .with_hint("start a server there, on 127.0.0.1 or ::1 or on all addresses"))
        }
        libc::EMFILE => {
            Err(Error::new(ErrorCode::Unavailable, "the sandbox has too many connections")
                .with_hint("close some of them"))
        }
        errno => Err(failed(io::Error::from_raw_os_error(errno))),
    }
}
