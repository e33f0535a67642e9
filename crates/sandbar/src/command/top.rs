//! `sandbar top`.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

use clap::{ArgMatches, Command};
use sandbar_core::Result;

use crate::{
    arguments::{flag, json, option, required},
    env_vars,
    failure::Outcome,
    parse,
    terminal::Terminal,
    top::{Column, Observed, print_json, print_table, watch},
};

#[derive(Debug)]
pub(crate) struct TopArgs {
    once: bool,
    json: bool,
    interval: Duration,
    sort: Column,
}

pub(crate) fn define() -> Command {
    Command::new("top")
        .about("Watch sandboxes and what they use")
        .long_about(
            "\
Watch sandboxes and what they use: CPU, memory, processes and disk, busiest first.

? shows the keys; q or Ctrl-C leaves. A host that goes away is waited for. Where the output is no terminal, and with
--once or --json, one table is printed. 100% CPU is one CPU, memory holds file pages, too, and disk is what a sandbox
holds beyond its base; what cannot be counted is -.",
        )
        .after_help(
            "\
Examples:
  sandbar top
  sandbar top --sort memory --interval 5s
  sandbar top --once | head
  sandbar top --json | jq '.sessions[] | select(.cpu > 0.5) | .session.session_id'",
        )
        .args([
            option("sort", "COLUMN", "What to sort by").default_value("cpu").value_parser(clap::value_parser!(Column)),
            option("interval", "TIME", "Time between two looks: 500ms, 5s")
                .default_value("1s")
                .value_parser(parse::duration),
            flag("once", "Print one table"),
            json(),
        ])
}

impl TopArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            once: matches.get_flag("once"),
            json: matches.get_flag("json"),
            interval: required(matches, "interval")?,
            sort: required(matches, "sort")?,
        })
    }
}

pub(crate) async fn execute(args: TopArgs, url: Option<String>) -> Outcome {
    let dumb = std::env::var_os(env_vars::TERM).is_none_or(|term| term.is_empty() || term == "dumb");
    if args.json {
        print_json(&Observed::twice(url).await?, args.sort)?;
    } else if args.once || dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        print_table(&Observed::twice(url).await?, args.sort)?;
    } else {
        let terminal = Terminal::of_stdin("top", "print one table with `--once`")?;
        return watch(&terminal, url, args.interval, args.sort).await;
    }
    Ok(ExitCode::SUCCESS)
}
