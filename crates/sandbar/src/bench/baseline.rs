//! Baselines: the machine without a host.

use std::{
    cell::Cell,
    fs, io,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sandbar_client::Client;
use sandbar_core::{Error, Result};

use super::rounds::{MeasureError, Times, measure, timed};

/// Content of the file that is read, on the machine and in a sandbox.
pub(super) const CONTENT: &str = "0123456789abcde\n";
pub(super) const REPEATED: usize = 256;

/// Minimal command in a bubblewrap sandbox.
const BWRAP_TRUE: [&str; 9] = [
    "bwrap",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--unshare-all",
    "--die-with-parent",
    "true",
];

/// Times that others are compared with.
#[derive(Debug)]
pub(crate) struct Baselines {
    /// A process on the machine, from start to exit.
    pub(crate) process: Times,
    /// The same in bubblewrap; `None` if it does not work here.
    pub(crate) bwrap: Option<Times>,
    /// A file read on the machine.
    pub(crate) read: Times,
    /// A call to the host without work.
    pub(crate) call: Times,
}

impl Baselines {
    pub(crate) async fn measure(client: &Client, stop: &Cell<bool>) -> Result<Self, MeasureError> {
        let process = measure(200, stop, async || run(&["true"])).await?;
        let bwrap = match run(&BWRAP_TRUE) {
            Ok(_) => Some(measure(100, stop, async || run(&BWRAP_TRUE)).await?),
            Err(_) => None,
        };
        Ok(Self {
            process,
            bwrap,
            read: read(stop).await?,
            call: call(client, stop).await?,
        })
    }
}

fn run(argv: &[&str]) -> Result<Duration> {
    let failed = |error| Error::io(format!("could not run `{}` here", argv[0]), error);
    let started = Instant::now();
    #[expect(
        clippy::disallowed_methods,
        reason = "measures a program without a sandbox"
    )]
    let mut command = Command::new(argv[0]);
    command
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status().map_err(failed)?;
    let elapsed = started.elapsed();
    if status.success() {
        Ok(elapsed)
    } else {
        Err(failed(io::Error::other(status.to_string())))
    }
}

async fn read(stop: &Cell<bool>) -> Result<Times, MeasureError> {
    let failed = |error| Error::io("could not use a temporary file", error);
    let file = tempfile::NamedTempFile::new().map_err(failed)?;
    fs::write(file.path(), CONTENT.repeat(REPEATED)).map_err(failed)?;
    measure(500, stop, async || {
        let started = Instant::now();
        let content = fs::read(file.path()).map_err(failed)?;
        let elapsed = started.elapsed();
        drop(content);
        Ok(elapsed)
    })
    .await
}

async fn call(client: &Client, stop: &Cell<bool>) -> Result<Times, MeasureError> {
    measure(200, stop, async || {
        Ok(timed(client.capabilities()).await?.1)
    })
    .await
}
