//! `sandbar rm`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::SessionId;

use crate::{
    cli::parse,
    failure::{Outcome, exit, say_error},
    terminal::output,
};

#[derive(Args, Debug)]
#[command(
    about = "Destroy sandboxes with their processes, files and snapshots",
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

/// Destroys each sandbox and prints the ids of those that are gone; an error does not stop it.
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
