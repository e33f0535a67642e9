//! `sandbar exec`.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use clap::{Arg, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{CommandEnd, ExecSpec, Resources, SessionId, StdinMode};

use crate::{
    arguments::{argv, flag, id, many, option, optional, pairs, required, user},
    attendance::{UNBOUNDED_OUTPUT, attend},
    failure::Outcome,
    interrupt::Interrupts,
    parse,
    terminal::Terminal,
};

/// How a command runs; `exec` and `run` share it.
#[derive(Debug)]
pub(crate) struct CommandOptions {
    interactive: bool,
    terminal: Option<Terminal>,
    timeout: Option<Duration>,
    cwd: Option<String>,
    user: Option<String>,
}

impl CommandOptions {
    pub(crate) fn define() -> [Arg; 5] {
        [
            flag("interactive", "Pass our input on also when it is a terminal; a pipe or file is always passed on")
                .short('i'),
            flag("tty", "Run the command at a terminal of its own that follows ours; our input goes there").short('t'),
            option("timeout", "TIME", "Stop the command after this time and end with 124: 30s, 5m")
                .value_parser(parse::duration),
            option("cwd", "DIR", "The directory it starts in; /workspace when left out").short('w'),
            user(),
        ]
    }

    /// Reads and checks the options, before anything is connected or made.
    pub(crate) fn read(matches: &mut ArgMatches) -> Outcome<Self> {
        let tty = matches.get_flag("tty");
        let without = "leave `-t` out; a pipe or file is passed on without it";
        Ok(Self {
            interactive: matches.get_flag("interactive"),
            terminal: tty.then(|| Terminal::of_stdin("-t", without)).transpose()?,
            timeout: optional(matches, "timeout"),
            cwd: optional(matches, "cwd"),
            user: optional(matches, "user"),
        })
    }

    /// At a terminal, for as long as it takes.
    pub(crate) fn at(terminal: Terminal, cwd: Option<String>, user: Option<String>) -> Self {
        Self { interactive: true, terminal: Some(terminal), timeout: None, cwd, user }
    }

    /// Runs a command this way and stays with it.
    pub(crate) async fn attend(
        &self,
        client: &Client,
        id: &SessionId,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        interrupts: &mut Interrupts,
    ) -> Outcome {
        let piped = self.interactive || !io::stdin().is_terminal();
        let spec = ExecSpec {
            argv,
            env: env.into_iter().collect(),
            cwd: self.cwd.clone(),
            user: self.user.clone(),
            stdin: if piped { StdinMode::Piped } else { StdinMode::Null },
            terminal: None,
            resources: Resources { wall_time: self.timeout, output: Some(UNBOUNDED_OUTPUT), ..Resources::default() },
            end: CommandEnd::default(),
        };
        attend(client, id, spec, self.terminal.as_ref(), interrupts).await
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
126 when it could not be executed, 127 when it was not found. Ctrl-C interrupts the command; a second one kills it.

With -t, or -it as elsewhere, the command runs at a terminal: it has the size of ours and follows it, and every key is the
command's, Ctrl-C, Ctrl-D and Ctrl-Z too. Its errors then come with its output. `sandbar shell` is the short form.",
        )
        .after_help(
            "\
Examples:
  sandbar exec build-42 -- ls -l
  sandbar exec build-42 --cwd /tmp --env LANG=C --timeout 30s -- make test
  sandbar exec -it build-42 -- vi notes.txt
  sandbar exec --user user build-42 -- id
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
    args.options.attend(client, &args.id, args.argv, args.env, &mut interrupts).await
}
