//! `sandbar pause`, `resume`, `hibernate` and `wake`: the same arguments, and one call each.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{Keep, Result, SessionId, SessionInfo};

use crate::{
    arguments::{flag, id, json, many},
    failure::{Outcome, exit, say_error},
    output,
    progress::Progress,
    view::SessionView,
};

/// Which of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    Pause(Keep),
    Resume,
    Hibernate,
    Wake,
}

impl Clock {
    const fn doing(self) -> &'static str {
        match self {
            Self::Pause(_) => "pausing",
            Self::Resume => "resuming",
            Self::Hibernate => "hibernating",
            Self::Wake => "waking",
        }
    }
}

#[derive(Debug)]
pub(crate) struct ClockArgs {
    clock: Clock,
    ids: Vec<SessionId>,
    json: bool,
}

fn sandboxes() -> [Arg; 2] {
    [id().num_args(1..).help("The sandboxes"), json()]
}

pub(crate) fn define() -> [Command; 4] {
    [
        Command::new("pause")
            .about("Freeze sandboxes: what runs in them stands still and uses no CPU")
            .after_help("Examples:\n  sandbar pause build-42\n  sandbar pause --files build-42")
            .args(sandboxes())
            .arg(flag("files", "Keep their files only: what runs in them is ended, and uses no memory either")),
        Command::new("resume")
            .about("Let paused sandboxes go on where they were")
            .after_help("Examples:\n  sandbar resume build-42")
            .args(sandboxes()),
        Command::new("hibernate")
            .about("Put sandboxes away into the object store and free their space here")
            .long_about(
                "\
Put sandboxes away into the object store and free their space here.

What runs in them is ended. Files, snapshots and turn numbers are kept, and are there again after `sandbar wake`.",
            )
            .after_help("Examples:\n  sandbar hibernate build-42\n  sandbar wake build-42")
            .args(sandboxes()),
        Command::new("wake")
            .about("Bring hibernated sandboxes back")
            .after_help("Examples:\n  sandbar wake build-42")
            .args(sandboxes()),
    ]
}

impl ClockArgs {
    /// `sandbar pause`.
    pub(crate) fn read_pause(matches: &mut ArgMatches) -> Self {
        let keep = if matches.get_flag("files") { Keep::Files } else { Keep::Memory };
        Self::read(Clock::Pause(keep), matches)
    }

    pub(crate) fn read(clock: Clock, matches: &mut ArgMatches) -> Self {
        Self { clock, ids: many(matches, "id"), json: matches.get_flag("json") }
    }
}

/// Does it to as many as it can and prints the ids it was done to.
pub(crate) async fn execute(args: ClockArgs, client: &Client) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    let mut done = Vec::new();
    for id in &args.ids {
        match Progress::text(args.clock.doing()).during(turn(args.clock, id, client)).await {
            Ok(session) if args.json => done.push(session),
            Ok(session) => output::line(&session.id)?,
            Err(error) => {
                say_error(&error);
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    if args.json {
        output::json(&done.iter().map(SessionView::from).collect::<Vec<_>>())?;
    }
    Ok(code)
}

async fn turn(clock: Clock, id: &SessionId, client: &Client) -> Result<SessionInfo> {
    match clock {
        Clock::Pause(keep) => client.pause_session_keeping(id, keep).await,
        Clock::Resume => client.resume_session(id).await,
        Clock::Hibernate => client.hibernate_session(id).await,
        Clock::Wake => client.wake_session(id).await,
    }
}
