//! `sandbar snapshots`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;

use crate::{
    cli::arguments::SandboxArg,
    failure::Outcome,
    terminal::output,
    view::{SnapshotView, age},
};

#[derive(Args, Debug)]
#[command(
    about = "List the snapshots of a sandbox, oldest first",
    after_help = "\
Examples:
  sandbar snapshots build-42
  sandbar snapshots build-42 -q | tail -1"
)]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Print names only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: SnapshotsArgs, client: &Client) -> Outcome {
    let snapshots = client.list_snapshots(&args.sandbox.id).await?;
    if args.json {
        output::json(&snapshots.iter().map(SnapshotView::from).collect::<Vec<_>>())?;
    } else if args.quiet {
        for snapshot in &snapshots {
            output::line(&snapshot.name)?;
        }
    } else {
        let rows = snapshots.iter().map(|snapshot| {
            [
                snapshot.name.to_string(),
                snapshot.kind.to_string(),
                age(snapshot.created),
                snapshot
                    .space_used
                    .map_or_else(|| "-".to_owned(), |used| used.to_string()),
                snapshot
                    .parent
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), ToString::to_string),
            ]
        });
        output::table(["NAME", "KIND", "CREATED", "USED", "PARENT"], rows)?;
    }
    Ok(ExitCode::SUCCESS)
}
