//! `sandbar shell`.

use clap::Args;

use super::exec::CommandRun;
use crate::{
    cli::{
        arguments::{SandboxArg, StartOptions},
        parse,
    },
    client::connection::ConnectionOptions,
    failure::{Failure, Outcome, exit},
    terminal::{Interrupts, Terminal},
};

#[derive(Args, Debug)]
#[command(
    about = "Open a shell in a sandbox",
    long_about = "\
Open a shell in a sandbox: bash where the sandbox has it, else sh.

The shell runs at a terminal of its own that follows ours. Every key goes to the shell, also Ctrl-C, Ctrl-D and Ctrl-Z;
end it with `exit` or Ctrl-D. Its exit code is ours.",
    after_help = "\
Examples:
  sandbar shell build-42
  sandbar shell build-42 --cwd /tmp --env LANG=C"
)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    #[command(flatten)]
    start: StartOptions,
    /// Set a variable; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    env: Vec<(String, String)>,
}

pub(crate) async fn execute(args: ShellArgs, connection: &ConnectionOptions) -> Outcome {
    let terminal = Terminal::of_stdin(
        "shell",
        "run a script with `sandbar exec ID -- sh < script`",
    )?;
    let command = CommandRun::at(terminal, args.start);
    let client = connection.connect().await?;
    let mut interrupts = Interrupts::listen()?;
    let mut open = async |shell: &str| {
        command
            .run(
                &client,
                &args.sandbox.id,
                vec![shell.to_owned()],
                args.env.clone(),
                &mut interrupts,
            )
            .await
    };
    // Not as login shells: the profile of most images overwrites `PATH`, and entries of the image
    // and the session would be lost.
    match open("bash").await {
        // The sandbox has no bash, and nothing has run.
        Err(Failure::Coded(_, exit::NOT_FOUND)) => open("sh").await,
        outcome => outcome,
    }
}
