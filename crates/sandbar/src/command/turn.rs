//! `sandbar turn`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Result, SessionId};

use crate::{
    arguments::{id, required},
    failure::Outcome,
    output,
};

#[derive(Debug)]
pub(crate) struct TurnArgs {
    id: SessionId,
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
        .arg(id())
}

impl TurnArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self { id: required(matches, "id")? })
    }
}

pub(crate) async fn execute(args: TurnArgs, client: &Client) -> Outcome {
    let snapshot = client.turn_complete(&args.id).await?;
    output::line(&snapshot.name)?;
    Ok(ExitCode::SUCCESS)
}
