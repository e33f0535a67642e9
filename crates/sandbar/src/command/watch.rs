//! `sandbar watch`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::DirNews;

use crate::{
    cli::arguments::SandboxArg,
    failure::Outcome,
    terminal::output,
    view::{DirChangeView, dir_change_line},
};

#[derive(Args, Debug)]
#[command(
    about = "Show changes in a directory of a sandbox as they happen",
    long_about = "\
Show changes in a directory of a sandbox and below it as they happen, until Ctrl-C.

It ends when the sandbox is removed, rolled back or hibernated, and when the directory is removed. With --json each line is
one object.",
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
    /// Only the directory itself, not the directories below it
    #[arg(long)]
    flat: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: WatchArgs, client: &Client) -> Outcome {
    let path = args.path.unwrap_or_else(|| PathBuf::from("/workspace"));
    let mut watch = client
        .watch_dir(&args.sandbox.id, &path, !args.flat)
        .await?;
    // Scripts wait for this line before they act.
    output::say(format_args!("watching {}", path.display()));
    while let Some(news) = watch.next().await? {
        match news {
            DirNews::Changed(change) if args.json => {
                output::json_line(&DirChangeView::from(&change))?;
            }
            DirNews::Changed(change) => output::line(dir_change_line(&change))?,
            DirNews::Overflow => output::say("note: changes were missed; list the directory again"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
