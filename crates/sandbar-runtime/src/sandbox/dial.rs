//! Connecting to a port in a box, through its init.

use std::{io, time::Duration};

use sandbar_core::{Error, ErrorCode, Result};
use tokio::time::Instant;

use super::BoxSandbox;
use crate::{Dialed, protocol::Request};

/// Caps the caller's timeout, so that the deadline does not overflow.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

/// Connects to a port. Blocks; must be called inside a tokio runtime.
pub(super) fn dial(sandbox: &BoxSandbox, port: u16, timeout: Duration) -> Result<Dialed> {
    if port == 0 {
        return Err(Error::invalid("port", "port 0 is not valid")
            .with_hint("use a number between 1 and 65535"));
    }
    let failed =
        |error: io::Error| Error::io(format!("connect to port {port} of the sandbox"), error);
    let deadline = Instant::now() + timeout.min(MAX_TIMEOUT);
    let link = &sandbox.link;
    let permit = link.acquire_dial_permit(deadline)?;
    let (dialed, answered) = {
        // Held only until the request is sent: a stop need not wait for the answer.
        let _not_stopped = sandbox.guard_not_stopped()?;
        let number = sandbox.next_number();
        let pipes = sandbox.streams.for_connection(number).map_err(failed)?;
        let request = Request::Dial {
            number,
            port,
            pipes: pipes.directory(),
        };
        let answered = link.dial(permit, number, &request, &pipes.theirs())?;
        (pipes.into_ours(), answered)
    };
    match link.wait_for_dialed(answered, deadline)? {
        0 => Ok(dialed),
        libc::ECONNREFUSED => Err(Error::new(
            ErrorCode::Unavailable,
            format!("port {port} of the sandbox has no listener"),
        )
        .with_field("port")
        .with_hint("start a server in the sandbox, on 127.0.0.1, ::1 or all addresses")),
        libc::EMFILE => Err(Error::new(
            ErrorCode::Unavailable,
            "sandbox has too many open connections",
        )
        .with_hint("close some of them")),
        errno => Err(failed(io::Error::from_raw_os_error(errno))),
    }
}
