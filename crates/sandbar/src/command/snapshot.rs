//! `sandbar snapshot`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{Quiesce, SnapshotName};

use crate::{
    cli::{arguments::SandboxArg, parse},
    failure::Outcome,
    terminal::output,
    view::SnapshotView,
};

#[derive(Args, Debug)]
#[command(
    about = "Take a snapshot of a sandbox and print its name",
    long_about = "\
Take a snapshot of a sandbox and print its name.

A named snapshot is never pruned. Taken while commands run it is crash-consistent: it holds what had reached the file
system by then. With --quiesce all processes of the sandbox are frozen meanwhile.",
    after_help = "\
Examples:
  sandbar snapshot build-42 before-upgrade
  name=$(sandbar snapshot build-42)"
)]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Name of the snapshot; a generated one when left out
    #[arg(value_parser = parse::word::<SnapshotName>)]
    name: Option<SnapshotName>,
    /// Freeze the processes of the sandbox while the snapshot is taken
    #[arg(long)]
    quiesce: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: SnapshotArgs, client: &Client) -> Outcome {
    let quiesce = if args.quiesce {
        Quiesce::Always
    } else {
        Quiesce::WhereNeeded
    };
    let snapshot = client
        .create_snapshot(&args.sandbox.id, args.name.as_ref(), quiesce)
        .await?;
    if args.json {
        output::json(&SnapshotView::from(&snapshot))?;
    } else {
        output::line(&snapshot.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
