//! `sandbar exec`.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{CommandEnd, ExecSpec, Resources, SessionId, StdinMode};

use crate::{
    cli::{
        arguments::{SandboxArg, StartOptions},
        parse,
    },
    client::{
        connection::ConnectionOptions,
        remote_exec::{UNBOUNDED_OUTPUT, run_command},
    },
    failure::Outcome,
    terminal::{Interrupts, Terminal},
};

// Options that `exec` and `run` share. Not a doc comment: clap would take it for the description of
// the verb.
#[derive(Args, Debug)]
pub(crate) struct CommandOptions {
    /// Forward our stdin even if it is a terminal; a pipe or file is always forwarded
    #[arg(short, long)]
    interactive: bool,
    /// Run the command at a terminal of its own that follows ours; our input goes to it
    #[arg(short, long)]
    tty: bool,
    /// Stop the command after this time and end with 124: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    start: StartOptions,
}

impl CommandOptions {
    /// Opens the terminal for `-t`. Called before connecting, so that a wrong use changes nothing.
    pub(crate) fn open(self) -> Outcome<CommandRun> {
        let without = "leave `-t` out; a pipe or file is forwarded without it";
        Ok(CommandRun {
            interactive: self.interactive,
            terminal: self
                .tty
                .then(|| Terminal::of_stdin("-t", without))
                .transpose()?,
            timeout: self.timeout,
            start: self.start,
        })
    }
}

/// Options of a command, with the opened terminal.
#[derive(Debug)]
pub(crate) struct CommandRun {
    interactive: bool,
    terminal: Option<Terminal>,
    timeout: Option<Duration>,
    start: StartOptions,
}

impl CommandRun {
    /// Returns options for a command at a terminal, without a timeout.
    pub(crate) fn at(terminal: Terminal, start: StartOptions) -> Self {
        Self {
            interactive: true,
            terminal: Some(terminal),
            timeout: None,
            start,
        }
    }

    /// Runs a command with these options to its end.
    pub(crate) async fn run(
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
            cwd: self.start.cwd.clone(),
            user: self.start.user.clone(),
            stdin: if piped {
                StdinMode::Piped
            } else {
                StdinMode::Null
            },
            terminal: None,
            resources: Resources {
                wall_time: self.timeout,
                output: Some(UNBOUNDED_OUTPUT),
                ..Resources::default()
            },
            end: CommandEnd::default(),
        };
        run_command(client, id, spec, self.terminal.as_ref(), interrupts).await
    }
}

#[derive(Args, Debug)]
#[command(
    about = "Run a command in a sandbox",
    long_about = "\
Run a command in a sandbox.

The command's output comes out here, and its exit code is ours: 128+n after signal n, 124 after its timeout, 126 if it
cannot be executed, 127 if it was not found. Ctrl-C interrupts the command; a second one kills it.

With -t, or -it as elsewhere, the command runs at a terminal that has the size of ours and follows it. Every key goes to
the command, also Ctrl-C, Ctrl-D and Ctrl-Z. Its stderr then arrives on stdout. `sandbar shell` is the short form.",
    after_help = "\
Examples:
  sandbar exec build-42 -- ls -l
  sandbar exec build-42 --cwd /tmp --env LANG=C --timeout 30s -- make test
  sandbar exec -it build-42 -- vi notes.txt
  sandbar exec --user user build-42 -- id
  echo hello | sandbar exec build-42 -- tr a-z A-Z
  sandbar exec build-42 -- sh -c 'cat > notes.txt' < notes.txt"
)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    #[command(flatten)]
    options: CommandOptions,
    /// Set a variable; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    env: Vec<(String, String)>,
    /// The program and its arguments; no shell is involved
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    argv: Vec<String>,
}

pub(crate) async fn execute(args: ExecArgs, connection: &ConnectionOptions) -> Outcome {
    let command = args.options.open()?;
    let client = connection.connect().await?;
    let mut interrupts = Interrupts::listen()?;
    command
        .run(
            &client,
            &args.sandbox.id,
            args.argv,
            args.env,
            &mut interrupts,
        )
        .await
}
