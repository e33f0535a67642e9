//! Signals that ask this program to stop.

use std::{future::Future, io};

use sandbar_core::{Error, ErrorCode, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers of SIGINT, SIGTERM, SIGHUP and SIGQUIT. While they exist, the signals do not end the
/// process by default.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Interrupts {
    /// Installs the handlers. Must be called inside the async runtime.
    pub(crate) fn listen() -> Result<Self> {
        let listen = || -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
                quit: signal(SignalKind::quit())?,
            })
        };
        listen().map_err(|error| Error::io("could not listen for signals", error))
    }

    /// Waits for the next signal and returns its number.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hangup.recv() => libc::SIGHUP,
            _ = self.quit.recv() => libc::SIGQUIT,
        }
    }
}

/// Waits for `work` and returns whether it was interrupted. The first signal calls `on_first` and
/// does not end the wait; the second one does.
pub(crate) async fn until_second<T>(
    interrupts: &mut Interrupts,
    work: impl Future<Output = T>,
    on_first: impl Fn(),
) -> Result<(T, bool)> {
    tokio::pin!(work);
    let mut interrupted = false;
    loop {
        tokio::select! {
            done = &mut work => return Ok((done, interrupted)),
            _ = interrupts.next() => {
                if interrupted {
                    return Err(Error::new(ErrorCode::Unavailable, "interrupted before the host answered")
                        .with_hint("check with `sandbar ls` whether a sandbox is left"));
                }
                interrupted = true;
                on_first();
            }
        }
    }
}
