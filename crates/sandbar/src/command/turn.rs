//! `sandbar turn`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;

use crate::{cli::arguments::SandboxArg, failure::Outcome, terminal::output, view::SnapshotView};

#[derive(Args, Debug)]
#[command(
    about = "End a turn: take the next numbered snapshot and print its name",
    long_about = "\
End a turn: take the next numbered snapshot and print its name.

Turn numbers never repeat. Old turn snapshots are pruned if the host has a limit.",
    after_help = "\
Examples:
  sandbar turn build-42"
)]
pub(crate) struct TurnArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: TurnArgs, client: &Client) -> Outcome {
    let snapshot = client.turn_complete(&args.sandbox.id).await?;
    if args.json {
        output::json(&SnapshotView::from(&snapshot))?;
    } else {
        output::line(&snapshot.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
