//! `sandbar diff`.

use std::{os::unix::ffi::OsStrExt, process::ExitCode};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{ChangeKind, EntryType, SnapshotName};

use crate::{
    cli::{arguments::SandboxArg, parse},
    failure::Outcome,
    terminal::output,
    view::ChangeView,
};

#[derive(Args, Debug)]
#[command(
    about = "Show which files differ between a snapshot and another one, or now",
    long_about = "\
Show which files differ between a snapshot and another one, or now.

Each line is `A`, `M` or `D` for added, modified and deleted, and a path; directories end in `/`. Control characters,
backslashes and bytes that are not UTF-8 are escaped; --json carries every path exactly.",
    after_help = "\
Examples:
  sandbar diff build-42 before-upgrade
  sandbar diff build-42 turn-0001 turn-0004 --json"
)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// The earlier snapshot
    #[arg(value_parser = parse::word::<SnapshotName>)]
    from: SnapshotName,
    /// The later snapshot; now when left out
    #[arg(value_parser = parse::word::<SnapshotName>)]
    to: Option<SnapshotName>,
    /// Print paths only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: DiffArgs, client: &Client) -> Outcome {
    let changes = client
        .diff(&args.sandbox.id, &args.from, args.to.as_ref())
        .await?;
    if args.json {
        output::json(&changes.iter().map(ChangeView::from).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    for change in &changes {
        let letter = match change.kind {
            ChangeKind::Added => 'A',
            ChangeKind::Modified => 'M',
            ChangeKind::Deleted => 'D',
        };
        let slash = if change.entry == EntryType::Directory {
            "/"
        } else {
            ""
        };
        let path = output::printable(change.path.as_os_str().as_bytes());
        if args.quiet {
            output::line(format_args!("{path}{slash}"))?;
        } else {
            output::line(format_args!("{letter} {path}{slash}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
