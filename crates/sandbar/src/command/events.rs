//! `sandbar events`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{EventKind, EventNews, EventQuery, SessionId};

use crate::{
    cli::parse,
    failure::Outcome,
    terminal::output,
    view::{EventView, event_line},
};

#[derive(Args, Debug)]
#[command(
    about = "Show events of sandboxes as they happen",
    long_about = "\
Show events of sandboxes as they happen, until Ctrl-C: sandboxes created, paused, snapshotted, rolled back, forked and
removed, processes started, ready and exited, tool calls finished.

The host keeps the last few thousand events while it runs: --since shows those after a number. With --json each line is one
object.",
    after_help = "\
Examples:
  sandbar events
  sandbar events build-42 --kind process-exited --kind tool-finished
  sandbar events --label task=42 --json | jq -r .kind
  sandbar events --since 1858000000000123"
)]
pub(crate) struct EventsArgs {
    /// Only this sandbox; it may be created later
    #[arg(value_parser = parse::word::<SessionId>)]
    id: Option<SessionId>,
    /// Only sandboxes with this label; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    label: Vec<(String, String)>,
    /// Only events of this kind; may be given several times
    #[arg(short, long, value_parser = parse::word::<EventKind>)]
    kind: Vec<EventKind>,
    /// Also earlier events after this number, as far as the host keeps them
    #[arg(long, value_name = "NUMBER")]
    since: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: EventsArgs, client: &Client) -> Outcome {
    let query = EventQuery {
        session: args.id,
        labels: args.label.into_iter().collect(),
        kinds: args.kind,
        since: args.since,
    };
    let mut events = client.watch_events(query).await?;
    // Scripts wait for this line before they act.
    output::say(format_args!("listening after event {}", events.sequence));
    while let Some(news) = events.next().await? {
        match news {
            EventNews::Happened(event) if args.json => output::json_line(&EventView::from(&event))?,
            EventNews::Happened(event) => output::line(event_line(&event))?,
            EventNews::Missed(Some(count)) => {
                output::say(format_args!("note: {count} events before this were missed"));
            }
            EventNews::Missed(None) => {
                output::say("note: the host was restarted; earlier events are lost");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
