//! `sandbar exec`.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use clap::{Arg, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Error, ExecSpec, Resources, SessionId, StdinMode};

use crate::{
    arguments::{argv, flag, id, many, option, optional, pairs, required},
    attendance::{UNBOUNDED_OUTPUT, attend},
    failure::{Failure, Outcome},
    interrupt::Interrupts,
    parse,
};

/// How a command runs; `exec` and `run` share it.
#[derive(Debug)]
pub(crate) struct CommandOptions {
    interactive: bool,
    tty: bool,
    timeout: Option<Duration>,
    cwd: Option<String>,
}

impl CommandOptions {
    pub(crate) fn define() -> [Arg; 4] {
        [
            flag("interactive", "Pass our input on also when it is a terminal; a pipe or file is always passed on")
                .short('i'),
            flag("tty", "Not offered yet; taken so that the answer can say so").short('t').hide(true),
            option("timeout", "TIME", "Stop the command after this time and end with 124: 30s, 5m")
                .value_parser(parse::duration),
            option("cwd", "DIR", "The directory it starts in; /workspace when left out").short('w'),
        ]
    }

    /// Reads and checks the options, before anything is connected or made.
    pub(crate) fn read(matches: &mut ArgMatches) -> Outcome<Self> {
        let options = Self {
            interactive: matches.get_flag("interactive"),
            tty: matches.get_flag("tty"),
            timeout: optional(matches, "timeout"),
            cwd: optional(matches, "cwd"),
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Outcome<()> {
        if self.tty {
            return Err(Failure::Usage(
                Error::invalid("tty", "`-t` asks for a terminal — terminals come with a later release")
                    .with_hint("leave `-t` out; `-i` passes your input on"),
            ));
        }
        Ok(())
    }

    pub(crate) fn into_spec(self, argv: Vec<String>, env: Vec<(String, String)>) -> ExecSpec {
        let piped = self.interactive || !io::stdin().is_terminal();
        ExecSpec {
            argv,
            env: env.into_iter().collect(),
            cwd: self.cwd,
            stdin: if piped { StdinMode::Piped } else { StdinMode::Null },
            terminal: None,
            resources: Resources { wall_time: self.timeout, output: Some(UNBOUNDED_OUTPUT), ..Resources::default() },
        }
    }
}

#[derive(Debug)]
pub(crate) struct ExecArgs {
    id: SessionId,
    options: CommandOptions,
    env: Vec<(String, String)>,
    argv: Vec<String>,
}

pub(crate) fn define() -> Command {
    Command::new("exec")
        .about("Run a command in a sandbox")
        .long_about(
            "\
Run a command in a sandbox.

The command's output comes out here, and its exit code is ours: 128+n when signal n ended it, 124 when its time was up,
126 when it could not be executed, 127 when it was not found. Ctrl-C interrupts the command; a second one kills it.",
        )
        .after_help(
            "\
Examples:
  sandbar exec build-42 -- ls -l
  sandbar exec build-42 --cwd /tmp --env LANG=C --timeout 30s -- make test
  echo hello | sandbar exec build-42 -- tr a-z A-Z
  sandbar exec build-42 -- sh -c 'cat > notes.txt' < notes.txt",
        )
        .arg(id())
        .args(CommandOptions::define())
        .arg(pairs("env", "Set a variable; may be given several times").short('e'))
        .arg(argv())
}

impl ExecArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Outcome<Self> {
        Ok(Self {
            options: CommandOptions::read(matches)?,
            id: required(matches, "id")?,
            env: many(matches, "env"),
            argv: many(matches, "argv"),
        })
    }
}

pub(crate) async fn execute(args: ExecArgs, client: &Client) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let spec = args.options.into_spec(args.argv, args.env);
    attend(client, &args.id, spec, &mut interrupts).await
}
