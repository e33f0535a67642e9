//! `sandbar watch`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::DirNews;

use crate::{
    arguments::SandboxArg,
    failure::Outcome,
    output,
    view::{DirChangeView, dir_change_line},
};

#[derive(Args, Debug)]
#[command(
    about = "Show what changes in a directory of a sandbox, as it changes",
    long_about = "\
Show what changes in a directory of a sandbox and all below it, as it changes, until Ctrl-C; whoever changes it.

It ends when the sandbox is removed, rolled back or hibernated, and when the directory is removed. With --json there is one
object a line.",
    after_help = "\
Examples:
  sandbar watch build-42
  sandbar watch build-42 /etc --flat
  sandbar watch build-42 src --json | jq -r .path"
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// The directory; /workspace when left out
    path: Option<PathBuf>,
    /// Only the directory itself, and not what is in directories below it
    #[arg(long)]
    flat: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: WatchArgs, client: &Client) -> Outcome {
    let path = args.path.unwrap_or_else(|| PathBuf::from("/workspace"));
    let mut watch = client.watch_dir(&args.sandbox.id, &path, !args.flat).await?;
    // For whoever waits until we look.
    output::say(format_args!("watching {}", path.display()));
    while let Some(news) = watch.next().await? {
        match news {
            DirNews::Changed(change) if args.json => output::json_line(&DirChangeView::from(&change))?,
            DirNews::Changed(change) => output::line(dir_change_line(&change))?,
            DirNews::Overflow => output::say("note: there was too much to tell; look at the directory anew"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
