//! `sandbar kill`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;

use crate::{
    cli::{arguments::ProcessTarget, parse},
    failure::Outcome,
    terminal::output,
    view::ProcessView,
};

#[derive(Args, Debug)]
#[command(
    about = "Send a signal to a process of a sandbox; SIGTERM when none is named",
    long_about = "\
Send a signal to a process of a sandbox; SIGTERM when none is named.

SIGKILL ends everything the process has started. This does not wait for the exit: `sandbar ps` shows it. A process that
was signalled to end is not restarted.",
    after_help = "\
Examples:
  sandbar kill build-42 p1a2b3c
  sandbar kill build-42 p1a2b3c -s KILL
  sandbar kill build-42 p1a2b3c -s HUP"
)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    target: ProcessTarget,
    /// The signal, by name or number: TERM, SIGTERM, 15
    #[arg(short, long, default_value = "TERM", value_parser = parse::signal)]
    signal: i32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: KillArgs, client: &Client) -> Outcome {
    let process = client
        .kill_process(&args.target.id, &args.target.process, args.signal)
        .await?;
    if args.json {
        output::json(&ProcessView::from(&process))?;
    } else {
        output::line(&process.id)?;
    }
    Ok(ExitCode::SUCCESS)
}
