//! `sandbar pause`.

use clap::Args;
use sandbar_client::Client;
use sandbar_core::Keep;

use super::each_sandbox::{SandboxList, for_each_sandbox};
use crate::failure::Outcome;

#[derive(Args, Debug)]
#[command(
    about = "Freeze sandboxes: their processes stop and use no CPU",
    after_help = "Examples:\n  sandbar pause build-42\n  sandbar pause --files build-42"
)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    sandboxes: SandboxList,
    /// Keep only the files: processes are ended, and their memory is freed
    #[arg(long)]
    files: bool,
}

pub(crate) async fn execute(args: PauseArgs, client: &Client) -> Outcome {
    let keep = if args.files {
        Keep::Files
    } else {
        Keep::Memory
    };
    for_each_sandbox(&args.sandboxes, "pausing", async |id| {
        client.pause_session_keeping(id, keep).await
    })
    .await
}
