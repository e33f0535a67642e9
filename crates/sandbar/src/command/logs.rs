//! `sandbar logs`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{LogQuery, LogStream};

use crate::{
    cli::arguments::ProcessTarget,
    failure::{Failure, Outcome},
    terminal::output::{self, pass_on},
};

#[derive(Args, Debug)]
#[command(
    about = "Show what a process of a sandbox has written",
    long_about = "\
Show what a process of a sandbox has written: its output here on stdout, its errors on stderr.

The end of each stream is kept while the host runs, also after the process has exited. With -f new output follows until the
process exits; Ctrl-C ends that earlier, and the process keeps running.",
    after_help = "\
Examples:
  sandbar logs build-42 p1a2b3c
  sandbar logs build-42 p1a2b3c -f --tail 20
  sandbar logs build-42 p1a2b3c --stderr"
)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    target: ProcessTarget,
    /// Follow new output
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
    let query = LogQuery {
        stream,
        follow: args.follow,
        tail: args.tail,
    };
    let mut logs = client
        .process_logs(&args.target.id, &args.target.process, query)
        .await?;
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    while let Some(chunk) = logs.next().await? {
        if chunk.missed > 0 {
            output::say(format_args!(
                "note: {} bytes before this are no longer available",
                chunk.missed
            ));
        }
        match chunk.stream {
            LogStream::Stdout => pass_on(&mut stdout, &chunk.bytes).await,
            LogStream::Stderr => pass_on(&mut stderr, &chunk.bytes).await,
        }
        .map_err(Failure::writing)?;
    }
    Ok(ExitCode::SUCCESS)
}
