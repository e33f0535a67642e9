//! `sandbar events`.

use std::process::ExitCode;

use clap::{ArgAction, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{EventKind, EventNews, EventQuery};

use crate::{
    arguments::{id, json, many, option, optional, pairs},
    failure::Outcome,
    output, parse,
    view::{EventView, event_line},
};

#[derive(Debug)]
pub(crate) struct EventsArgs {
    query: EventQuery,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("events")
        .about("Show what happens to sandboxes, as it happens")
        .long_about(
            "\
Show what happens to sandboxes, as it happens, until Ctrl-C: made, paused, snapshotted, rolled back, forked and removed,
processes that start, are ready and end, tools that are done.

The host remembers the last few thousand events while it runs: --since shows those after a number. With --json there is one
object a line.",
        )
        .after_help(
            "\
Examples:
  sandbar events
  sandbar events build-42 --kind process-exited --kind tool-finished
  sandbar events --label task=42 --json | jq -r .kind
  sandbar events --since 1858000000000123",
        )
        .args([
            id().required(false).help("Only this sandbox; it may be made later"),
            pairs("label", "Only sandboxes with this label; may be given several times").short('l'),
            option("kind", "KIND", "Only events of this kind; may be given several times")
                .short('k')
                .action(ArgAction::Append)
                .value_parser(parse::word::<EventKind>),
            option("since", "NUMBER", "First those after this number, as far as the host remembers")
                .value_parser(clap::value_parser!(u64)),
            json(),
        ])
}

impl EventsArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Self {
        let query = EventQuery {
            session: optional(matches, "id"),
            labels: many(matches, "label").into_iter().collect(),
            kinds: many(matches, "kind"),
            since: optional(matches, "since"),
        };
        Self { query, json: matches.get_flag("json") }
    }
}

pub(crate) async fn execute(args: EventsArgs, client: &Client) -> Outcome {
    let mut events = client.watch_events(args.query).await?;
    // For whoever waits until we listen.
    output::say(format_args!("listening after event {}", events.sequence));
    while let Some(news) = events.next().await? {
        match news {
            EventNews::Happened(event) if args.json => output::json_line(&EventView::from(&event))?,
            EventNews::Happened(event) => output::line(event_line(&event))?,
            EventNews::Missed(Some(count)) => output::say(format_args!("note: {count} events before this were missed")),
            EventNews::Missed(None) => {
                output::say("note: the host was started anew; what happened before is not known");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
