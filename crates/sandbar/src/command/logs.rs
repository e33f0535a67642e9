//! `sandbar logs`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{LogQuery, LogStream};

use crate::{
    arguments::ProcessTarget,
    failure::{Failure, Outcome},
    output::{self, pass_on},
};

#[derive(Args, Debug)]
#[command(
    about = "Show what a process of a sandbox has written",
    long_about = "\
Show what a process of a sandbox has written: its output here on stdout, its errors on stderr.

The end of each stream is kept, also after the process has exited, as long as the host runs. With -f it goes on with what
the process writes, until it has exited; Ctrl-C leaves it earlier, and the process runs on.",
    after_help = "\
Examples:
  sandbar logs build-42 p1a2b3c
  sandbar logs build-42 p1a2b3c -f --tail 20
  sandbar logs build-42 p1a2b3c --stderr"
)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    target: ProcessTarget,
    /// Go on with what it writes from now on
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines of each stream
    #[arg(short = 'n', long, value_name = "LINES")]
    tail: Option<u64>,
    /// Only its output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only its errors
    #[arg(long)]
    stderr: bool,
}

pub(crate) async fn execute(args: LogsArgs, client: &Client) -> Outcome {
    let stream = match (args.stdout, args.stderr) {
        (true, _) => Some(LogStream::Stdout),
        (_, true) => Some(LogStream::Stderr),
        _ => None,
    };
    let query = LogQuery { stream, follow: args.follow, tail: args.tail };
    let mut logs = client.process_logs(&args.target.id, &args.target.process, query).await?;
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
