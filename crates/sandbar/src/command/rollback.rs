//! `sandbar rollback`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{LaterSnapshots, Result, SessionId, SnapshotName};

use crate::{
    arguments::{flag, id, json, required, snapshot},
    failure::Outcome,
    output,
    view::SessionView,
};

#[derive(Debug)]
pub(crate) struct RollbackArgs {
    id: SessionId,
    snapshot: SnapshotName,
    keep_later: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("rollback")
        .about("Put a sandbox back to a snapshot")
        .long_about(
            "\
Put a sandbox back to a snapshot.

What runs in it is stopped. Snapshots taken after the target are dropped unless --keep-later is given.",
        )
        .after_help(
            "\
Examples:
  sandbar rollback build-42 before-upgrade
  sandbar rollback build-42 turn-0003 --keep-later",
        )
        .args([
            id(),
            snapshot("snapshot", "SNAPSHOT", "The snapshot to go back to").required(true),
            flag("keep-later", "Keep the snapshots taken after it, so that you can go forward again"),
            json(),
        ])
}

impl RollbackArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: required(matches, "id")?,
            snapshot: required(matches, "snapshot")?,
            keep_later: matches.get_flag("keep-later"),
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: RollbackArgs, client: &Client) -> Outcome {
    let later = if args.keep_later { LaterSnapshots::Keep } else { LaterSnapshots::Drop };
    let session = client.rollback_session(&args.id, &args.snapshot, later).await?;
    if args.json {
        output::json(&SessionView::from(&session))?;
    } else {
        output::say(format_args!("rolled back {} to {}", args.id, args.snapshot));
    }
    Ok(ExitCode::SUCCESS)
}
