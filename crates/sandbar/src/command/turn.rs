//! `sandbar turn`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Result, SessionId};

use crate::{
    arguments::{id, json, required},
    failure::Outcome,
    output,
    view::SnapshotView,
};

#[derive(Debug)]
pub(crate) struct TurnArgs {
    id: SessionId,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("turn")
        .about("End a turn: take the next numbered snapshot and print its name")
        .long_about(
            "\
End a turn: take the next numbered snapshot and print its name.

Turn numbers never repeat. Old turn snapshots are pruned where the host has a limit.",
        )
        .after_help(
            "\
Examples:
  sandbar turn build-42",
        )
        .args([id(), json()])
}

impl TurnArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self { id: required(matches, "id")?, json: matches.get_flag("json") })
    }
}

pub(crate) async fn execute(args: TurnArgs, client: &Client) -> Outcome {
    let snapshot = client.turn_complete(&args.id).await?;
    if args.json {
        output::json(&SnapshotView::from(&snapshot))?;
    } else {
        output::line(&snapshot.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
