//! `sandbar hibernate`.

use clap::Args;
use sandbar_client::Client;

use super::each_sandbox::{SandboxList, for_each_sandbox};
use crate::failure::Outcome;

#[derive(Args, Debug)]
#[command(
    about = "Move sandboxes to the object store and free their space here",
    long_about = "\
Move sandboxes to the object store and free their space here.

Their processes are ended. Files, snapshots and turn numbers are kept; `sandbar wake` brings them back.",
    after_help = "Examples:\n  sandbar hibernate build-42\n  sandbar wake build-42"
)]
pub(crate) struct HibernateArgs {
    #[command(flatten)]
    sandboxes: SandboxList,
}

pub(crate) async fn execute(args: HibernateArgs, client: &Client) -> Outcome {
    for_each_sandbox(&args.sandboxes, "hibernating", async |id| {
        client.hibernate_session(id).await
    })
    .await
}
