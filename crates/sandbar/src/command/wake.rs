//! `sandbar wake`.

use clap::Args;
use sandbar_client::Client;

use super::each_sandbox::{SandboxList, for_each_sandbox};
use crate::failure::Outcome;

#[derive(Args, Debug)]
#[command(
    about = "Bring hibernated sandboxes back",
    after_help = "Examples:\n  sandbar wake build-42"
)]
pub(crate) struct WakeArgs {
    #[command(flatten)]
    sandboxes: SandboxList,
}

pub(crate) async fn execute(args: WakeArgs, client: &Client) -> Outcome {
    for_each_sandbox(&args.sandboxes, "waking", async |id| {
        client.wake_session(id).await
    })
    .await
}
