//! `sandbar ls`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{SessionFilter, SessionInfo, SessionState};

use crate::{
    arguments::{json, many, option, optional, pairs, quiet},
    failure::Outcome,
    output, parse,
    view::{SessionView, age, printable_labels},
};

#[derive(Debug)]
pub(crate) struct LsArgs {
    labels: Vec<(String, String)>,
    state: Option<SessionState>,
    quiet: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("ls")
        .about("List sandboxes, oldest first")
        .after_help(
            "\
Examples:
  sandbar ls
  sandbar ls --label team=red --state active
  sandbar ls -q | xargs -r sandbar rm
  sandbar ls --json",
        )
        .arg(pairs("label", "Only those with this label; may be given several times"))
        .arg(
            option(
                "state",
                "STATE",
                "Only those in this state: creating, active, paused, hibernated, destroying, failed",
            )
            .value_parser(parse::word::<SessionState>),
        )
        .arg(quiet("Print ids only"))
        .arg(json())
}

impl LsArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Self {
        Self {
            labels: many(matches, "label"),
            state: optional(matches, "state"),
            quiet: matches.get_flag("quiet"),
            json: matches.get_flag("json"),
        }
    }
}

pub(crate) async fn execute(args: LsArgs, client: &Client) -> Outcome {
    let labels = args.labels.into_iter().collect();
    let filter = SessionFilter { labels, state: args.state, ..SessionFilter::default() };
    let sessions = client.all_sessions(&filter).await?;
    if args.json {
        output::json(&sessions.iter().map(SessionView::from).collect::<Vec<_>>())?;
    } else if args.quiet {
        for session in &sessions {
            output::line(&session.id)?;
        }
    } else {
        let headings = ["ID", "STATE", "BASE", "CREATED", "USED", "TURNS", "SNAPSHOTS", "LABELS"];
        output::table(headings, sessions.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(session: &SessionInfo) -> [String; 8] {
    [
        session.id.to_string(),
        session.state.to_string(),
        session.base.to_string(),
        age(session.created),
        session.space_used.to_string(),
        session.turn_count.to_string(),
        session.snapshot_count.to_string(),
        printable_labels(&session.labels),
    ]
}
