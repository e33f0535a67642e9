//! `sandbar rm`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::SessionId;

use crate::{
    failure::{Outcome, exit, say_error},
    output, parse,
};

#[derive(Args, Debug)]
#[command(
    about = "Destroy sandboxes: what runs in them, their files and their snapshots",
    after_help = "\
Examples:
  sandbar rm build-42
  sandbar rm $(sandbar ls -q --label team=red)"
)]
pub(crate) struct RmArgs {
    /// The sandboxes
    #[arg(value_name = "ID", required = true, value_parser = parse::word::<SessionId>)]
    ids: Vec<SessionId>,
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
