//! `sandbar logs`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{LogQuery, LogStream, ProcessId, Result, SessionId};

use crate::{
    arguments::{flag, id, option, optional, process, required},
    failure::{Failure, Outcome},
    output::{self, pass_on},
};

#[derive(Debug)]
pub(crate) struct LogsArgs {
    id: SessionId,
    process: ProcessId,
    query: LogQuery,
}

pub(crate) fn define() -> Command {
    Command::new("logs")
        .about("Show what a process of a sandbox has written")
        .long_about(
            "\
Show what a process of a sandbox has written: its output here on stdout, its errors on stderr.

The end of each stream is kept, also after the process has exited, as long as the host runs. With -f it goes on with what
the process writes, until it has exited; Ctrl-C leaves it earlier, and the process runs on.",
        )
        .after_help(
            "\
Examples:
  sandbar logs build-42 p1a2b3c
  sandbar logs build-42 p1a2b3c -f --tail 20
  sandbar logs build-42 p1a2b3c --stderr",
        )
        .args([
            id(),
            process(),
            flag("follow", "Go on with what it writes from now on").short('f'),
            option("tail", "LINES", "Only the last lines of each stream")
                .short('n')
                .value_parser(clap::value_parser!(u64)),
            flag("stdout", "Only its output").conflicts_with("stderr"),
            flag("stderr", "Only its errors"),
        ])
}

impl LogsArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        let stream = match (matches.get_flag("stdout"), matches.get_flag("stderr")) {
            (true, _) => Some(LogStream::Stdout),
            (_, true) => Some(LogStream::Stderr),
            _ => None,
        };
        Ok(Self {
            query: LogQuery { stream, follow: matches.get_flag("follow"), tail: optional(matches, "tail") },
            id: required(matches, "id")?,
            process: required(matches, "process")?,
        })
    }
}

pub(crate) async fn execute(args: LogsArgs, client: &Client) -> Outcome {
    let mut logs = client.process_logs(&args.id, &args.process, args.query).await?;
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    while let Some(chunk) = logs.next().await? {
        if chunk.missed > 0 {
            output::say(format_args!("note: {} bytes before this are no longer kept", chunk.missed));
        }
        match chunk.stream {
            LogStream::Stdout => pass_on(&mut stdout, &chunk.bytes).await,
            LogStream::Stderr => pass_on(&mut stderr, &chunk.bytes).await,
        }
        .map_err(Failure::writing)?;
    }
    Ok(ExitCode::SUCCESS)
}
