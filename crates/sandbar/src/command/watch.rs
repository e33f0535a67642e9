//! `sandbar watch`.

use std::{path::PathBuf, process::ExitCode};

use clap::{Arg, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{DirNews, Result, SessionId};

use crate::{
    arguments::{flag, id, json, optional, required},
    failure::Outcome,
    output,
    view::{DirChangeView, dir_change_line},
};

#[derive(Debug)]
pub(crate) struct WatchArgs {
    id: SessionId,
    path: PathBuf,
    recursive: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("watch")
        .about("Show what changes in a directory of a sandbox, as it changes")
        .long_about(
            "\
Show what changes in a directory of a sandbox and all below it, as it changes, until Ctrl-C; whoever changes it.

It ends when the sandbox is removed, rolled back or hibernated, and when the directory is removed. With --json there is one
object a line.",
        )
        .after_help(
            "\
Examples:
  sandbar watch build-42
  sandbar watch build-42 /etc --flat
  sandbar watch build-42 src --json | jq -r .path",
        )
        .args([
            id(),
            Arg::new("path")
                .value_name("PATH")
                .value_parser(clap::value_parser!(PathBuf))
                .help("The directory; /workspace when left out"),
            flag("flat", "Only the directory itself, and not what is in directories below it"),
            json(),
        ])
}

impl WatchArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: required(matches, "id")?,
            path: optional(matches, "path").unwrap_or_else(|| PathBuf::from("/workspace")),
            recursive: !matches.get_flag("flat"),
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: WatchArgs, client: &Client) -> Outcome {
    let mut watch = client.watch_dir(&args.id, &args.path, args.recursive).await?;
    // For whoever waits until we look.
    output::say(format_args!("watching {}", args.path.display()));
    while let Some(news) = watch.next().await? {
        match news {
            DirNews::Changed(change) if args.json => output::json_line(&DirChangeView::from(&change))?,
            DirNews::Changed(change) => output::line(dir_change_line(&change))?,
            DirNews::Overflow => output::say("note: there was too much to tell; look at the directory anew"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
