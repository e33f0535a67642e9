//! `sandbar snapshot`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Result, SessionId, SnapshotName};

use crate::{
    arguments::{id, optional, required, snapshot},
    failure::Outcome,
    output,
};

#[derive(Debug)]
pub(crate) struct SnapshotArgs {
    id: SessionId,
    name: Option<SnapshotName>,
}

pub(crate) fn define() -> Command {
    Command::new("snapshot")
        .about("Take a snapshot of a sandbox and print its name")
        .long_about(
            "\
Take a snapshot of a sandbox and print its name.

A named snapshot is never pruned. Taken while commands run it is crash-consistent: it holds what had reached the file
system at that moment.",
        )
        .after_help(
            "\
Examples:
  sandbar snapshot build-42 before-upgrade
  name=$(sandbar snapshot build-42)",
        )
        .args([id(), snapshot("name", "NAME", "Its name; a generated one when left out")])
}

impl SnapshotArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self { id: required(matches, "id")?, name: optional(matches, "name") })
    }
}

pub(crate) async fn execute(args: SnapshotArgs, client: &Client) -> Outcome {
    let snapshot = client.create_snapshot(&args.id, args.name.as_ref()).await?;
    output::line(&snapshot.name)?;
    Ok(ExitCode::SUCCESS)
}
