//! `sandbar kill`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{ProcessId, Result, SessionId};

use crate::{
    arguments::{id, json, option, process, required},
    failure::Outcome,
    output, parse,
    view::ProcessView,
};

#[derive(Debug)]
pub(crate) struct KillArgs {
    id: SessionId,
    process: ProcessId,
    signal: i32,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("kill")
        .about("Send a signal to a process of a sandbox; SIGTERM when none is named")
        .long_about(
            "\
Send a signal to a process of a sandbox; SIGTERM when none is named.

SIGKILL ends everything the process has started. This does not wait for the end: `sandbar ps` shows it. A process that
was asked to end is not started again.",
        )
        .after_help(
            "\
Examples:
  sandbar kill build-42 p1a2b3c
  sandbar kill build-42 p1a2b3c -s KILL
  sandbar kill build-42 p1a2b3c -s HUP",
        )
        .args([
            id(),
            process(),
            option("signal", "SIGNAL", "The signal, by name or number: TERM, SIGTERM, 15")
                .short('s')
                .default_value("TERM")
                .value_parser(parse::signal),
            json(),
        ])
}

impl KillArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: required(matches, "id")?,
            process: required(matches, "process")?,
            signal: required(matches, "signal")?,
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: KillArgs, client: &Client) -> Outcome {
    let process = client.kill_process(&args.id, &args.process, args.signal).await?;
    if args.json {
        output::json(&ProcessView::from(&process))?;
    } else {
        output::line(&process.id)?;
    }
    Ok(ExitCode::SUCCESS)
}
