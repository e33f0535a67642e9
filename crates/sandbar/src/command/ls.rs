//! `sandbar ls`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{SessionFilter, SessionInfo, SessionState};

use crate::{
    cli::parse,
    failure::Outcome,
    terminal::output,
    view::{SessionView, age, printable_labels},
};

#[derive(Args, Debug)]
#[command(
    about = "List sandboxes, oldest first",
    after_help = "\
Examples:
  sandbar ls
  sandbar ls --label team=red --state active
  sandbar ls -q | xargs -r sandbar rm
  sandbar ls --json"
)]
pub(crate) struct LsArgs {
    /// Only those with this label; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    label: Vec<(String, String)>,
    /// Only those in this state: creating, active, paused, hibernated, destroying, failed
    #[arg(long, value_parser = parse::word::<SessionState>)]
    state: Option<SessionState>,
    /// Print ids only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: LsArgs, client: &Client) -> Outcome {
    let labels = args.label.into_iter().collect();
    let filter = SessionFilter {
        labels,
        state: args.state,
        ..SessionFilter::default()
    };
    let sessions = client.all_sessions(&filter).await?;
    if args.json {
        output::json(&sessions.iter().map(SessionView::from).collect::<Vec<_>>())?;
    } else if args.quiet {
        for session in &sessions {
            output::line(&session.id)?;
        }
    } else {
        let headings = [
            "ID",
            "STATE",
            "BASE",
            "CREATED",
            "USED",
            "TURNS",
            "SNAPSHOTS",
            "LABELS",
        ];
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
