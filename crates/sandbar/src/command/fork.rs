//! `sandbar fork`.

use std::process::ExitCode;

use clap::{ArgAction, ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{ForkRequest, Result, SessionId, SnapshotName};

use crate::{
    arguments::{id, json, many, option, optional, pairs, required, snapshot},
    failure::Outcome,
    output, parse,
    view::SessionView,
};

#[derive(Debug)]
pub(crate) struct ForkArgs {
    source: SessionId,
    from: Option<SnapshotName>,
    count: Option<u16>,
    ids: Vec<SessionId>,
    labels: Vec<(String, String)>,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("fork")
        .about("Copy a sandbox and print the ids of the copies")
        .long_about(
            "\
Copy a sandbox and print the ids of the copies.

Copies share what they have in common and never see each other's writes. All of them are made, or none.",
        )
        .after_help(
            "\
Examples:
  sandbar fork build-42
  sandbar fork build-42 --from before-upgrade -n 10
  sandbar fork build-42 --id build-43 --label try=second",
        )
        .args([
            id().help("The sandbox to copy; it is not changed"),
            snapshot("from", "SNAPSHOT", "The snapshot to start from; its present state when left out").long("from"),
            option("count", "N", "How many copies, 1 to 1000")
                .short('n')
                .value_parser(clap::value_parser!(u16).range(1..=1000)),
            option("ids", "ID", "Id of a copy; once for each, or not at all")
                .long("id")
                .action(ArgAction::Append)
                .value_parser(parse::word::<SessionId>),
            pairs("label", "Tag the copies, beside the labels of the source; may be given several times"),
            json(),
        ])
}

impl ForkArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            source: required(matches, "id")?,
            from: optional(matches, "from"),
            count: optional(matches, "count"),
            ids: many(matches, "ids"),
            labels: many(matches, "label"),
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: ForkArgs, client: &Client) -> Outcome {
    let request = ForkRequest {
        from: args.from,
        count: args.count.map_or(args.ids.len().max(1), usize::from),
        ids: args.ids,
        labels: args.labels.into_iter().collect(),
    };
    let copies = client.fork_session(&args.source, request).await?;
    if args.json {
        output::json(&copies.iter().map(SessionView::from).collect::<Vec<_>>())?;
    } else {
        copies.iter().try_for_each(|session| output::line(&session.id))?;
    }
    Ok(ExitCode::SUCCESS)
}
