//! `sandbar diff`.

use std::{os::unix::ffi::OsStrExt, process::ExitCode};

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{ChangeKind, EntryType, Result, SessionId, SnapshotName};

use crate::{
    arguments::{id, json, optional, quiet, required, snapshot},
    failure::Outcome,
    output,
    view::ChangeView,
};

#[derive(Debug)]
pub(crate) struct DiffArgs {
    id: SessionId,
    from: SnapshotName,
    to: Option<SnapshotName>,
    quiet: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("diff")
        .about("Show which files differ between a snapshot and another one, or now")
        .long_about(
            "\
Show which files differ between a snapshot and another one, or now.

Each line is `A`, `M` or `D` for added, modified and deleted, and a path; directories end in `/`. Control characters,
backslashes and bytes that are not UTF-8 are escaped; --json carries every path exactly.",
        )
        .after_help(
            "\
Examples:
  sandbar diff build-42 before-upgrade
  sandbar diff build-42 turn-0001 turn-0004 --json",
        )
        .args([
            id(),
            snapshot("from", "FROM", "The earlier snapshot").required(true),
            snapshot("to", "TO", "The later snapshot; now when left out"),
            quiet("Print paths only"),
            json(),
        ])
}

impl DiffArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: required(matches, "id")?,
            from: required(matches, "from")?,
            to: optional(matches, "to"),
            quiet: matches.get_flag("quiet"),
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: DiffArgs, client: &Client) -> Outcome {
    let changes = client.diff(&args.id, &args.from, args.to.as_ref()).await?;
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
        let slash = if change.entry == EntryType::Directory { "/" } else { "" };
        let path = output::printable(change.path.as_os_str().as_bytes());
        if args.quiet {
            output::line(format_args!("{path}{slash}"))?;
        } else {
            output::line(format_args!("{letter} {path}{slash}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
