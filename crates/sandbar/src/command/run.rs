//! `sandbar run`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{Error, ErrorCode, Result, SessionId};

use super::{exec::CommandOptions, new::SandboxOptions};
use crate::{
    cli::parse::{self, CopiedDirectory},
    client::{
        connection::ConnectionOptions,
        tree::{self, TopLevel},
    },
    failure::{Outcome, exit},
    terminal::{Interrupts, Progress, output, until_second},
};

#[derive(Args, Debug)]
#[command(
    about = "Make a sandbox, run a command in it, destroy it",
    long_about = "\
Make a sandbox, run a command in it, destroy it.

The sandbox is destroyed however the command ends, also on an error or Ctrl-C; --keep keeps it and prints its id on
stderr. The exit code is the command's, as with `sandbar exec`.",
    after_help = "\
Examples:
  sandbar run -- sh -c 'echo hello'
  sandbar run -it -- bash
  sandbar run --base debian -v .:/workspace -- make test
  sandbar run --keep --timeout 5m -- ./build.sh
  sandbar run --network allow=example.com -- curl https://example.com"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    sandbox: SandboxOptions,
    #[command(flatten)]
    command: CommandOptions,
    /// Keep the sandbox
    #[arg(long)]
    keep: bool,
    #[arg(
        short,
        long,
        value_name = "DIR:/workspace",
        value_parser = parse::copied_directory,
        help = "Copy a directory of this machine into the sandbox first",
        long_help = "Copy a directory of this machine into the sandbox before the command starts. It is a copy: what the \
                     command changes stays in the sandbox; fetch it with --keep and `sandbar cp`"
    )]
    volume: Vec<CopiedDirectory>,
    /// The program and its arguments; no shell is involved
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    argv: Vec<String>,
}

pub(crate) async fn execute(args: RunArgs, connection: &ConnectionOptions) -> Outcome {
    let command = args.command.open()?;
    let client = &connection.connect().await?;
    for volume in &args.volume {
        check_source(volume)?;
    }
    let mut interrupts = Interrupts::listen()?;
    // Not cancelled by the first Ctrl-C: only a sandbox whose id is known can be destroyed.
    let spec = args.sandbox.into_spec(None);
    let (session, interrupted) = until_second(
        &mut interrupts,
        Box::pin(client.create_session(spec)),
        || {},
    )
    .await?;
    let id = session?.id;
    let outcome = if interrupted {
        Ok(ExitCode::from(exit::INTERRUPTED))
    } else {
        match copy_in(client, &id, args.volume, &mut interrupts).await {
            Ok(false) => {
                command
                    .run(client, &id, args.argv, Vec::new(), &mut interrupts)
                    .await
            }
            Ok(true) => Ok(ExitCode::from(exit::INTERRUPTED)),
            Err(error) => Err(error.into()),
        }
    };
    if args.keep {
        output::say(format_args!("kept sandbox {id}"));
        return outcome;
    }
    let (destroyed, _) = until_second(
        &mut interrupts,
        Box::pin(client.destroy_session(&id)),
        || {},
    )
    .await?;
    match (outcome, destroyed) {
        (Ok(_), Err(error)) if error.code() != ErrorCode::SessionNotFound => Err(error.into()),
        (outcome, _) => outcome,
    }
}

fn check_source(volume: &CopiedDirectory) -> Result<()> {
    let source = volume.source.display();
    let metadata = std::fs::metadata(&volume.source).map_err(|error| {
        Error::io(format!("could not read `{source}`"), error)
            .with_hint("give -v a directory that exists")
    })?;
    if metadata.is_dir() {
        return Ok(());
    }
    Err(
        Error::invalid("volume", format!("`{source}` is not a directory"))
            .with_hint("copy single files with `sandbar new` and `sandbar cp`"),
    )
}

/// Copies every directory into the sandbox; returns whether it was interrupted.
async fn copy_in(
    client: &Client,
    id: &SessionId,
    volumes: Vec<CopiedDirectory>,
    interrupts: &mut Interrupts,
) -> Result<bool> {
    for volume in volumes {
        let copying = tree::send(
            client,
            id,
            volume.source,
            TopLevel::Contents,
            &volume.target,
            Progress::new("copying"),
        );
        tokio::select! {
            copied = copying => { copied?; }
            _ = interrupts.next() => return Ok(true),
        }
    }
    Ok(false)
}
