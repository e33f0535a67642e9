//! `sandbar snapshots`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Result, SessionId};

use crate::{
    arguments::{id, json, quiet, required},
    failure::Outcome,
    output,
    view::{SnapshotView, age},
};

#[derive(Debug)]
pub(crate) struct SnapshotsArgs {
    id: SessionId,
    quiet: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("snapshots")
        .about("List the snapshots of a sandbox, oldest first")
        .after_help(
            "\
Examples:
  sandbar snapshots build-42
  sandbar snapshots build-42 -q | tail -1",
        )
        .args([id(), quiet("Print names only"), json()])
}

impl SnapshotsArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self { id: required(matches, "id")?, quiet: matches.get_flag("quiet"), json: matches.get_flag("json") })
    }
}

pub(crate) async fn execute(args: SnapshotsArgs, client: &Client) -> Outcome {
    let snapshots = client.list_snapshots(&args.id).await?;
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
                snapshot.space_used.map_or_else(|| "-".to_owned(), |used| used.to_string()),
                snapshot.parent.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            ]
        });
        output::table(["NAME", "KIND", "CREATED", "USED", "PARENT"], rows)?;
    }
    Ok(ExitCode::SUCCESS)
}
