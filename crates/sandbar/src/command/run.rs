//! `sandbar run`.

use std::process::ExitCode;

use clap::{ArgAction, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Error, ErrorCode, Result, SessionId};

use super::{exec::CommandOptions, new::SandboxOptions};
use crate::{
    arguments::{argv, flag, many, option},
    failure::{Outcome, exit},
    interrupt::{Interrupts, until_second},
    output,
    parse::{self, CopiedDirectory},
    progress::Progress,
    tree::{self, TopLevel},
};

#[derive(Debug)]
pub(crate) struct RunArgs {
    sandbox: SandboxOptions,
    command: CommandOptions,
    keep: bool,
    volumes: Vec<CopiedDirectory>,
    argv: Vec<String>,
}

pub(crate) fn define() -> Command {
    Command::new("run")
        .about("Make a sandbox, run a command in it, destroy it")
        .long_about(
            "\
Make a sandbox, run a command in it, destroy it.

The sandbox is destroyed however the command ends, also on an error or Ctrl-C; --keep keeps it and prints its id on
stderr. The exit code is the command's, as with `sandbar exec`.",
        )
        .after_help(
            "\
Examples:
  sandbar run -- sh -c 'echo hello'
  sandbar run -it -- bash
  sandbar run --base debian -v .:/workspace -- make test
  sandbar run --keep --timeout 5m -- ./build.sh
  sandbar run --network allow=example.com -- curl https://example.com",
        )
        .args(SandboxOptions::define())
        .args(CommandOptions::define())
        .arg(flag("keep", "Keep the sandbox"))
        .arg(
            option("volume", "DIR:/workspace", "Copy a directory of this machine into the sandbox first")
                .short('v')
                .action(ArgAction::Append)
                .value_parser(parse::copied_directory)
                .long_help(
                    "Copy a directory of this machine into the sandbox before the command starts. It is a copy: what the \
                     command changes stays in the sandbox; fetch it with --keep and `sandbar cp`",
                ),
        )
        .arg(argv())
}

impl RunArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Outcome<Self> {
        Ok(Self {
            command: CommandOptions::read(matches)?,
            sandbox: SandboxOptions::read(matches)?,
            keep: matches.get_flag("keep"),
            volumes: many(matches, "volume"),
            argv: many(matches, "argv"),
        })
    }
}

pub(crate) async fn execute(args: RunArgs, client: &Client) -> Outcome {
    for volume in &args.volumes {
        check_source(volume)?;
    }
    let mut interrupts = Interrupts::listen()?;
    // Not cancelled by the first Ctrl-C: only a sandbox whose id we know can be taken away again.
    let spec = args.sandbox.into_spec(None);
    let (session, interrupted) = until_second(&mut interrupts, Box::pin(client.create_session(spec)), || {}).await?;
    let id = session?.id;
    let outcome = if interrupted {
        Ok(ExitCode::from(exit::INTERRUPTED))
    } else {
        match copy_in(client, &id, args.volumes, &mut interrupts).await {
            Ok(false) => args.command.attend(client, &id, args.argv, Vec::new(), &mut interrupts).await,
            Ok(true) => Ok(ExitCode::from(exit::INTERRUPTED)),
            Err(error) => Err(error.into()),
        }
    };
    if args.keep {
        output::say(format_args!("kept sandbox {id}"));
        return outcome;
    }
    let (destroyed, _) = until_second(&mut interrupts, Box::pin(client.destroy_session(&id)), || {}).await?;
    match (outcome, destroyed) {
        (Ok(_), Err(error)) if error.code() != ErrorCode::SessionNotFound => Err(error.into()),
        (outcome, _) => outcome,
    }
}

fn check_source(volume: &CopiedDirectory) -> Result<()> {
    let source = volume.source.display();
    let metadata = std::fs::metadata(&volume.source).map_err(|error| {
        Error::io(format!("could not read `{source}`"), error).with_hint("give -v a directory that exists")
    })?;
    if metadata.is_dir() {
        return Ok(());
    }
    Err(Error::invalid("volume", format!("`{source}` is not a directory"))
        .with_hint("copy single files with `sandbar new` and `sandbar cp`"))
}

/// Copies every directory in; whether it was interrupted.
async fn copy_in(
    client: &Client,
    id: &SessionId,
    volumes: Vec<CopiedDirectory>,
    interrupts: &mut Interrupts,
) -> Result<bool> {
    for volume in volumes {
        let copying =
            tree::send(client, id, volume.source, TopLevel::Contents, &volume.target, Progress::new("copying"));
        tokio::select! {
            copied = copying => { copied?; }
            _ = interrupts.next() => return Ok(true),
        }
    }
    Ok(false)
}
