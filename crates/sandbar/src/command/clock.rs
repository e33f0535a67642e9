//! `sandbar pause`, `resume`, `hibernate` and `wake`: the same arguments, and one call each.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sandbar_client::Client;
use sandbar_core::{Keep, Result, SessionId, SessionInfo};

use crate::{
    failure::{Outcome, exit, say_error},
    output, parse,
    progress::Progress,
    view::SessionView,
};

#[derive(Debug, Subcommand)]
pub(crate) enum ClockCommand {
    #[command(
        about = "Freeze sandboxes: what runs in them stands still and uses no CPU",
        after_help = "Examples:\n  sandbar pause build-42\n  sandbar pause --files build-42"
    )]
    Pause {
        #[command(flatten)]
        sandboxes: Sandboxes,
        /// Keep their files only: what runs in them is ended, and uses no memory either
        #[arg(long)]
        files: bool,
    },
    #[command(
        about = "Let paused sandboxes go on where they were",
        after_help = "Examples:\n  sandbar resume build-42"
    )]
    Resume(Sandboxes),
    #[command(
        about = "Put sandboxes away into the object store and free their space here",
        long_about = "\
Put sandboxes away into the object store and free their space here.

What runs in them is ended. Files, snapshots and turn numbers are kept, and are there again after `sandbar wake`.",
        after_help = "Examples:\n  sandbar hibernate build-42\n  sandbar wake build-42"
    )]
    Hibernate(Sandboxes),
    #[command(about = "Bring hibernated sandboxes back", after_help = "Examples:\n  sandbar wake build-42")]
    Wake(Sandboxes),
}

#[derive(Args, Debug)]
pub(crate) struct Sandboxes {
    /// The sandboxes
    #[arg(value_name = "ID", required = true, value_parser = parse::word::<SessionId>)]
    ids: Vec<SessionId>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ClockCommand {
    const fn doing(&self) -> &'static str {
        match self {
            Self::Pause { .. } => "pausing",
            Self::Resume(_) => "resuming",
            Self::Hibernate(_) => "hibernating",
            Self::Wake(_) => "waking",
        }
    }

    const fn sandboxes(&self) -> &Sandboxes {
        match self {
            Self::Pause { sandboxes, .. }
            | Self::Resume(sandboxes)
            | Self::Hibernate(sandboxes)
            | Self::Wake(sandboxes) => sandboxes,
        }
    }

    async fn carry_out(&self, id: &SessionId, client: &Client) -> Result<SessionInfo> {
        match self {
            Self::Pause { files: true, .. } => client.pause_session_keeping(id, Keep::Files).await,
            Self::Pause { files: false, .. } => client.pause_session_keeping(id, Keep::Memory).await,
            Self::Resume(_) => client.resume_session(id).await,
            Self::Hibernate(_) => client.hibernate_session(id).await,
            Self::Wake(_) => client.wake_session(id).await,
        }
    }
}

/// Does it to as many as it can and prints the ids it was done to.
pub(crate) async fn execute(command: ClockCommand, client: &Client) -> Outcome {
    let Sandboxes { ids, json } = command.sandboxes();
    let mut code = ExitCode::SUCCESS;
    let mut done = Vec::new();
    for id in ids {
        match Progress::text(command.doing()).during(command.carry_out(id, client)).await {
            Ok(session) if *json => done.push(session),
            Ok(session) => output::line(&session.id)?,
            Err(error) => {
                say_error(&error);
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    if *json {
        output::json(&done.iter().map(SessionView::from).collect::<Vec<_>>())?;
    }
    Ok(code)
}
