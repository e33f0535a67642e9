//! `sandbar attach`.

use std::io::{self, IsTerminal};

use clap::Args;
use sandbar_core::Replay;

use crate::{
    arguments::ProcessTarget, attachment::join, attendance::AtTheEnd, connection::connect, failure::Outcome,
    interrupt::Interrupts, parse, terminal::Terminal,
};

#[derive(Args, Debug)]
#[command(
    about = "Talk with a process of a sandbox that runs already",
    long_about = "\
Talk with a process of a sandbox that runs already: what it writes comes out here, our input goes there.

It needs to have been launched with -i, -t or --stdin to take input. At a terminal every key is the process's; Ctrl-P Ctrl-Q
leaves it. Without one, Ctrl-C interrupts the process, and a second one leaves it. The process runs on when we leave. When
it ends, its exit code is ours. Several may be attached at once.",
    after_help = "\
Examples:
  sandbar attach build-42 p1a2b3c
  sandbar attach build-42 p1a2b3c --replay all
  echo 'reload' | sandbar attach build-42 p1a2b3c"
)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    target: ProcessTarget,
    /// What it wrote before: none, tail or all; tail, the last 10 lines, when left out
    #[arg(long, value_name = "WHAT", value_parser = parse::replay)]
    replay: Option<Replay>,
}

pub(crate) async fn execute(args: AttachArgs, url: Option<&str>) -> Outcome {
    // Whether the process has a terminal is known later.
    let terminal = io::stdin().is_terminal().then(|| Terminal::of_stdin("attach", "")).transpose()?;
    let client = connect(url).await?;
    let mut interrupts = Interrupts::listen()?;
    // Others may be attached, and have more to say when our input ends.
    let how = (args.replay.unwrap_or(Replay::Tail), AtTheEnd::Leave);
    join(&client, &args.target.id, &args.target.process, how, terminal.as_ref(), &mut interrupts).await
}
