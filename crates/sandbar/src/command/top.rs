//! `sandbar top`.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

use clap::Args;

use crate::{
    cli::parse,
    client::connection::ConnectionOptions,
    env_vars,
    failure::Outcome,
    terminal::Terminal,
    top::{Column, Observed, print_json, print_table, watch},
};

#[derive(Args, Debug)]
#[command(
    about = "Watch the resource usage of sandboxes",
    long_about = "\
Watch the resource usage of sandboxes: CPU, memory, processes and disk, highest CPU first.

? shows the keys; q or Ctrl-C quits. A host that goes away is retried. If the output is not a terminal, and with --once or
--json, one table is printed. 100% CPU is one CPU, memory includes cached file pages, and disk is the space beyond the base;
- means unknown.",
    after_help = "\
Examples:
  sandbar top
  sandbar top --sort memory --interval 5s
  sandbar top --once | head
  sandbar top --json | jq '.sessions[] | select(.cpu > 0.5) | .session.session_id'"
)]
pub(crate) struct TopArgs {
    /// Column to sort by
    #[arg(long, value_name = "COLUMN", default_value = "cpu")]
    sort: Column,
    /// Refresh interval: 500ms, 5s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse::duration)]
    interval: Duration,
    /// Print one table
    #[arg(long)]
    once: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: TopArgs, connection: &ConnectionOptions) -> Outcome {
    let dumb =
        std::env::var_os(env_vars::TERM).is_none_or(|term| term.is_empty() || term == "dumb");
    if args.json {
        print_json(&Observed::twice(connection).await?, args.sort)?;
    } else if args.once || dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        print_table(&Observed::twice(connection).await?, args.sort)?;
    } else {
        let terminal = Terminal::of_stdin("top", "print one table with `--once`")?;
        return watch(&terminal, connection, args.interval, args.sort).await;
    }
    Ok(ExitCode::SUCCESS)
}
