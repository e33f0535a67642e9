//! `sandbar rollback`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{LaterSnapshots, SnapshotName};

use crate::{arguments::SandboxArg, failure::Outcome, output, parse, view::SessionView};

#[derive(Args, Debug)]
#[command(
    about = "Put a sandbox back to a snapshot",
    long_about = "\
Put a sandbox back to a snapshot.

What runs in it is stopped. Snapshots taken after the target are dropped unless --keep-later is given.",
    after_help = "\
Examples:
  sandbar rollback build-42 before-upgrade
  sandbar rollback build-42 turn-0003 --keep-later"
)]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// The snapshot to go back to
    #[arg(value_parser = parse::word::<SnapshotName>)]
    snapshot: SnapshotName,
    /// Keep the snapshots taken after it, so that you can go forward again
    #[arg(long)]
    keep_later: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: RollbackArgs, client: &Client) -> Outcome {
    let later = if args.keep_later { LaterSnapshots::Keep } else { LaterSnapshots::Drop };
    let session = client.rollback_session(&args.sandbox.id, &args.snapshot, later).await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::say(format_args!("rolled back {} to {}", args.sandbox.id, args.snapshot));
    }
    Ok(ExitCode::SUCCESS)
}
