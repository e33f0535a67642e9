//! Ctrl-C and its relatives, as something to wait for.

use std::{future::Future, io};

use sandbar_core::{Error, ErrorCode, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask us to stop. From the moment this exists they no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Interrupts {
    /// Must be called inside the async runtime.
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

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.hangup.recv() => libc::SIGHUP,
            _ = self.quit.recv() => libc::SIGQUIT,
        }
    }
}

/// Waits for `work` through one interrupt, of which `on_first` may tell it; whether there was one. The second one is obeyed at once.
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
                    return Err(Error::new(ErrorCode::Unavailable, "stopped before the host had answered")
                        .with_hint("look with `sandbar ls` whether a sandbox is left"));
                }
                interrupted = true;
                on_first();
            }
        }
    }
}
