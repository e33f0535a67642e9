//! `sandbar snapshot`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Quiesce, Result, SessionId, SnapshotName};

use crate::{
    arguments::{flag, id, json, optional, required, snapshot},
    failure::Outcome,
    output,
    view::SnapshotView,
};

#[derive(Debug)]
pub(crate) struct SnapshotArgs {
    id: SessionId,
    name: Option<SnapshotName>,
    quiesce: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("snapshot")
        .about("Take a snapshot of a sandbox and print its name")
        .long_about(
            "\
Take a snapshot of a sandbox and print its name.

A named snapshot is never pruned. Taken while commands run it is crash-consistent: it holds what had reached the file
system at that moment. With --quiesce everything in the sandbox is frozen for that moment.",
        )
        .after_help(
            "\
Examples:
  sandbar snapshot build-42 before-upgrade
  name=$(sandbar snapshot build-42)",
        )
        .args([
            id(),
            snapshot("name", "NAME", "Its name; a generated one when left out"),
            flag("quiesce", "Freeze what runs in the sandbox while the snapshot is taken"),
            json(),
        ])
}

impl SnapshotArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: required(matches, "id")?,
            name: optional(matches, "name"),
            quiesce: matches.get_flag("quiesce"),
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: SnapshotArgs, client: &Client) -> Outcome {
    let quiesce = if args.quiesce { Quiesce::Always } else { Quiesce::WhereNeeded };
    let snapshot = client.create_snapshot(&args.id, args.name.as_ref(), quiesce).await?;
    if args.json {
        output::json(&SnapshotView::from(&snapshot))?;
    } else {
        output::line(&snapshot.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
