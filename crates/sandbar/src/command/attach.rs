//! `sandbar attach`.

use std::io::{self, IsTerminal};

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{ProcessId, Replay, SessionId};

use crate::{
    arguments::{id, option, optional, process, required},
    attachment::join,
    attendance::AtTheEnd,
    failure::Outcome,
    interrupt::Interrupts,
    parse,
    terminal::Terminal,
};

#[derive(Debug)]
pub(crate) struct AttachArgs {
    id: SessionId,
    process: ProcessId,
    replay: Replay,
    terminal: Option<Terminal>,
}

pub(crate) fn define() -> Command {
    Command::new("attach")
        .about("Talk with a process of a sandbox that runs already")
        .long_about(
            "\
Talk with a process of a sandbox that runs already: what it writes comes out here, our input goes there.

It needs to have been launched with -i, -t or --stdin to take input. At a terminal every key is the process's; Ctrl-P Ctrl-Q
leaves it. Without one, Ctrl-C interrupts the process, and a second one leaves it. The process runs on when we leave. When
it ends, its exit code is ours. Several may be attached at once.",
        )
        .after_help(
            "\
Examples:
  sandbar attach build-42 p1a2b3c
  sandbar attach build-42 p1a2b3c --replay all
  echo 'reload' | sandbar attach build-42 p1a2b3c",
        )
        .args([
            id(),
            process(),
            option("replay", "WHAT", "What it wrote before: none, tail or all; tail, the last 10 lines, when left out")
                .value_parser(parse::replay),
        ])
}

impl AttachArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Outcome<Self> {
        // Whether the process has a terminal is known later.
        let terminal = io::stdin().is_terminal().then(|| Terminal::of_stdin("attach", "")).transpose()?;
        Ok(Self {
            id: required(matches, "id")?,
            process: required(matches, "process")?,
            replay: optional(matches, "replay").unwrap_or(Replay::Tail),
            terminal,
        })
    }
}

pub(crate) async fn execute(args: AttachArgs, client: &Client) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    // Others may be attached, and have more to say when our input ends.
    let how = (args.replay, AtTheEnd::Leave);
    join(client, &args.id, &args.process, how, args.terminal.as_ref(), &mut interrupts).await
}
