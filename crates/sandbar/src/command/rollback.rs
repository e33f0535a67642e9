//! `sandbar rollback`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{LaterSnapshots, SnapshotName};

use crate::{
    cli::{arguments::SandboxArg, parse},
    failure::Outcome,
    terminal::output,
    view::SessionView,
};

#[derive(Args, Debug)]
#[command(
    about = "Roll a sandbox back to a snapshot",
    long_about = "\
Roll a sandbox back to a snapshot.

Its processes are stopped. Snapshots taken after the target are deleted unless --keep-later is given.",
    after_help = "\
Examples:
  sandbar rollback build-42 before-upgrade
  sandbar rollback build-42 turn-0003 --keep-later"
)]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Snapshot to roll back to
    #[arg(value_parser = parse::word::<SnapshotName>)]
    snapshot: SnapshotName,
    /// Keep the snapshots taken after it, to be able to roll forward again
    #[arg(long)]
    keep_later: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: RollbackArgs, client: &Client) -> Outcome {
    let later = if args.keep_later {
        LaterSnapshots::Keep
    } else {
        LaterSnapshots::Drop
    };
    let session = client
        .rollback_session(&args.sandbox.id, &args.snapshot, later)
        .await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::say(format_args!(
            "rolled back {} to {}",
            args.sandbox.id, args.snapshot
        ));
    }
    Ok(ExitCode::SUCCESS)
}
