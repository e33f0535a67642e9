//! `sandbar shell`.

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::SessionId;

use super::exec::CommandOptions;
use crate::{
    arguments::{id, many, option, optional, pairs, required, user},
    failure::{Failure, Outcome, exit},
    interrupt::Interrupts,
    terminal::Terminal,
};

#[derive(Debug)]
pub(crate) struct ShellArgs {
    id: SessionId,
    options: CommandOptions,
    env: Vec<(String, String)>,
}

pub(crate) fn define() -> Command {
    Command::new("shell")
        .about("Open a shell in a sandbox")
        .long_about(
            "\
Open a shell in a sandbox: bash where the sandbox has it, else sh.

The shell runs at a terminal of its own that follows ours. Every key is the shell's, Ctrl-C, Ctrl-D and Ctrl-Z too; leave
it with `exit` or Ctrl-D. Its exit code is ours.",
        )
        .after_help(
            "\
Examples:
  sandbar shell build-42
  sandbar shell build-42 --cwd /tmp --env LANG=C",
        )
        .arg(id())
        .arg(option("cwd", "DIR", "The directory it starts in; /workspace when left out").short('w'))
        .arg(user())
        .arg(pairs("env", "Set a variable; may be given several times").short('e'))
}

impl ShellArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Outcome<Self> {
        let terminal = Terminal::of_stdin("shell", "run a script with `sandbar exec ID -- sh < script`")?;
        Ok(Self {
            options: CommandOptions::at(terminal, optional(matches, "cwd"), optional(matches, "user")),
            id: required(matches, "id")?,
            env: many(matches, "env"),
        })
    }
}

pub(crate) async fn execute(args: ShellArgs, client: &Client) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let mut open = async |shell: &str| {
        args.options.attend(client, &args.id, vec![shell.to_owned()], args.env.clone(), &mut interrupts).await
    };
    // Not as login shells: the profile of most images sets `PATH` anew, and what image and session have put there would
    // be lost.
    match open("bash").await {
        // The sandbox itself says that it has none, and nothing has run.
        Err(Failure::Coded(_, exit::NOT_FOUND)) => open("sh").await,
        outcome => outcome,
    }
}
