//! `sandbar exec`.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{CommandEnd, ExecSpec, Resources, SessionId, StdinMode};

use crate::{
    arguments::{SandboxArg, StartOptions},
    attendance::{UNBOUNDED_OUTPUT, attend},
    connection::connect,
    failure::Outcome,
    interrupt::Interrupts,
    parse,
    terminal::Terminal,
};

// How a command runs; `exec` and `run` share it. No doc comment: clap would take it for the description of the verb.
#[derive(Args, Debug)]
pub(crate) struct CommandOptions {
    /// Pass our input on also when it is a terminal; a pipe or file is always passed on
    #[arg(short, long)]
    interactive: bool,
    /// Run the command at a terminal of its own that follows ours; our input goes there
    #[arg(short, long)]
    tty: bool,
    /// Stop the command after this time and end with 124: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    start: StartOptions,
}

impl CommandOptions {
    /// Opens the terminal that `-t` asks for. Called before anything is connected or made.
    pub(crate) fn open(self) -> Outcome<AttendedCommand> {
        let without = "leave `-t` out; a pipe or file is passed on without it";
        Ok(AttendedCommand {
            interactive: self.interactive,
            terminal: self.tty.then(|| Terminal::of_stdin("-t", without)).transpose()?,
            timeout: self.timeout,
            start: self.start,
        })
    }
}

/// How a command runs, with the terminal it runs at.
#[derive(Debug)]
pub(crate) struct AttendedCommand {
    interactive: bool,
    terminal: Option<Terminal>,
    timeout: Option<Duration>,
    start: StartOptions,
}

impl AttendedCommand {
    /// At a terminal, for as long as it takes.
    pub(crate) fn at(terminal: Terminal, start: StartOptions) -> Self {
        Self { interactive: true, terminal: Some(terminal), timeout: None, start }
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
            cwd: self.start.cwd.clone(),
            user: self.start.user.clone(),
            stdin: if piped { StdinMode::Piped } else { StdinMode::Null },
            terminal: None,
            resources: Resources { wall_time: self.timeout, output: Some(UNBOUNDED_OUTPUT), ..Resources::default() },
            end: CommandEnd::default(),
        };
        attend(client, id, spec, self.terminal.as_ref(), interrupts).await
    }
}

#[derive(Args, Debug)]
#[command(
    about = "Run a command in a sandbox",
    long_about = "\
Run a command in a sandbox.

The command's output comes out here, and its exit code is ours: 128+n when signal n ended it, 124 when its time was up,
126 when it could not be executed, 127 when it was not found. Ctrl-C interrupts the command; a second one kills it.

With -t, or -it as elsewhere, the command runs at a terminal: it has the size of ours and follows it, and every key is the
command's, Ctrl-C, Ctrl-D and Ctrl-Z too. Its errors then come with its output. `sandbar shell` is the short form.",
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

pub(crate) async fn execute(args: ExecArgs, url: Option<&str>) -> Outcome {
    let command = args.options.open()?;
    let client = connect(url).await?;
    let mut interrupts = Interrupts::listen()?;
    command.attend(&client, &args.sandbox.id, args.argv, args.env, &mut interrupts).await
}
