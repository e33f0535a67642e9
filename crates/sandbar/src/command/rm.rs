//! `sandbar rm`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::SessionId;

use crate::{
    arguments::{id, many},
    failure::{Outcome, exit, say_error},
    output,
};

#[derive(Debug)]
pub(crate) struct RmArgs {
    ids: Vec<SessionId>,
}

pub(crate) fn define() -> Command {
    Command::new("rm")
        .about("Destroy sandboxes: what runs in them, their files and their snapshots")
        .after_help(
            "\
Examples:
  sandbar rm build-42
  sandbar rm $(sandbar ls -q --label team=red)",
        )
        .arg(id().num_args(1..).help("The sandboxes"))
}

impl RmArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Self {
        Self { ids: many(matches, "id") }
    }
}

/// Removes as many as it can and prints the ids that are gone.
pub(crate) async fn execute(args: RmArgs, client: &Client) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    for id in &args.ids {
        match client.destroy_session(id).await {
            Ok(()) => output::line(id)?,
            Err(error) => {
                say_error(&error);
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    Ok(code)
}
