//! `sandbar ps`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::ProcessInfo;

use crate::{
    cli::arguments::SandboxArg,
    failure::Outcome,
    terminal::output,
    view::{ProcessView, age, process_status, shortened},
};

/// Command lines are cut to this length in the table; `--json` has them whole.
const MAX_COMMAND_LENGTH: usize = 100;

#[derive(Args, Debug)]
#[command(
    about = "List the processes launched in a sandbox, oldest first",
    long_about = "\
List the processes launched in a sandbox, oldest first: their status, their addresses from outside, and how they exited.",
    after_help = "\
Examples:
  sandbar ps build-42
  sandbar ps build-42 --json | jq -r '.[] | select(.status == \"running\") | .address'
  sandbar ps build-42 -q"
)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Print ids only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: PsArgs, client: &Client) -> Outcome {
    let processes = client.list_processes(&args.sandbox.id).await?;
    if args.json {
        output::json(&processes.iter().map(ProcessView::from).collect::<Vec<_>>())?;
    } else if args.quiet {
        for process in &processes {
            output::line(&process.id)?;
        }
    } else {
        let headings = [
            "ID", "STATUS", "PID", "ADDRESS", "RESTARTS", "STARTED", "COMMAND",
        ];
        output::table(headings, processes.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(process: &ProcessInfo) -> [String; 7] {
    [
        process.id.to_string(),
        process_status(process),
        process
            .pid
            .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        process.address.clone().unwrap_or_else(|| "-".to_owned()),
        process.restarts.to_string(),
        age(process.started),
        shortened(&process.argv.join(" "), MAX_COMMAND_LENGTH),
    ]
}
