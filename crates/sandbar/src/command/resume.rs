//! `sandbar resume`.

use clap::Args;
use sandbar_client::Client;

use super::each_sandbox::{SandboxList, for_each_sandbox};
use crate::failure::Outcome;

#[derive(Args, Debug)]
#[command(
    about = "Let the processes of paused sandboxes continue",
    after_help = "Examples:\n  sandbar resume build-42"
)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    sandboxes: SandboxList,
}

pub(crate) async fn execute(args: ResumeArgs, client: &Client) -> Outcome {
    for_each_sandbox(&args.sandboxes, "resuming", async |id| {
        client.resume_session(id).await
    })
    .await
}
