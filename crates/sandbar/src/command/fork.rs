//! `sandbar fork`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{ForkRequest, SessionId, SnapshotName};

use crate::{cli::parse, failure::Outcome, terminal::output, view::SessionView};

#[derive(Args, Debug)]
#[command(
    about = "Copy a sandbox and print the ids of the copies",
    long_about = "\
Copy a sandbox and print the ids of the copies.

Copies share what they have in common and never see each other's writes. All of them are made, or none.",
    after_help = "\
Examples:
  sandbar fork build-42
  sandbar fork build-42 --from before-upgrade -n 10
  sandbar fork build-42 --id build-43 --label try=second"
)]
pub(crate) struct ForkArgs {
    /// The sandbox to copy; it is not changed
    #[arg(value_parser = parse::word::<SessionId>)]
    id: SessionId,
    /// Snapshot to start from; the current state when left out
    #[arg(long, value_name = "SNAPSHOT", value_parser = parse::word::<SnapshotName>)]
    from: Option<SnapshotName>,
    /// Number of copies, 1 to 1000
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: Option<u16>,
    /// Id of a copy; once for each, or not at all
    #[arg(long = "id", value_name = "ID", value_parser = parse::word::<SessionId>)]
    ids: Vec<SessionId>,
    /// Tag the copies, beside the labels of the source; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::key_value)]
    label: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: ForkArgs, client: &Client) -> Outcome {
    let request = ForkRequest {
        from: args.from,
        count: args.count.map_or(args.ids.len().max(1), usize::from),
        ids: args.ids,
        labels: args.label.into_iter().collect(),
    };
    let copies = client.fork_session(&args.id, request).await?;
    if args.json {
        output::json(&copies.iter().map(SessionView::from).collect::<Vec<_>>())?;
    } else {
        copies
            .iter()
            .try_for_each(|session| output::line(&session.id))?;
    }
    Ok(ExitCode::SUCCESS)
}
