//! `sandbar attach`.

use std::io::{self, IsTerminal};

use clap::Args;
use sandbar_core::Replay;

use crate::{
    cli::{arguments::ProcessTarget, parse},
    client::{connection::ConnectionOptions, remote_attach::attach, remote_exec::OnStdinEof},
    failure::Outcome,
    terminal::{Interrupts, Terminal},
};

#[derive(Args, Debug)]
#[command(
    about = "Attach to a running process of a sandbox",
    long_about = "\
Attach to a running process of a sandbox: its output comes out here, and our input goes to it.

It takes input if it was launched with -i, -t or --stdin. At a terminal every key goes to the process; Ctrl-P Ctrl-Q
detaches. Without one, Ctrl-C interrupts the process, and a second one detaches. The process keeps running after a detach.
When it exits, its exit code is ours. Several clients may be attached at once.",
    after_help = "\
Examples:
  sandbar attach build-42 p1a2b3c
  sandbar attach build-42 p1a2b3c --replay all
  echo 'reload' | sandbar attach build-42 p1a2b3c"
)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    target: ProcessTarget,
    /// Earlier output to show: none, tail (the last 10 lines) or all; tail when left out
    #[arg(long, value_name = "PART", value_parser = parse::replay)]
    replay: Option<Replay>,
}

pub(crate) async fn execute(args: AttachArgs, connection: &ConnectionOptions) -> Outcome {
    // Opened before it is known whether the process has a terminal.
    let terminal = io::stdin()
        .is_terminal()
        .then(|| Terminal::of_stdin("attach", ""))
        .transpose()?;
    let client = connection.connect().await?;
    let mut interrupts = Interrupts::listen()?;
    // Other clients may be attached and send more input after ours ends.
    let how = (args.replay.unwrap_or(Replay::Tail), OnStdinEof::KeepOpen);
    attach(
        &client,
        &args.target.id,
        &args.target.process,
        how,
        terminal.as_ref(),
        &mut interrupts,
    )
    .await
}
