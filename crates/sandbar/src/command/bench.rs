//! `sandbar bench`.

use std::{cell::Cell, process::ExitCode};

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{BaseName, ErrorCode, Labels, Result, SessionFilter, SessionId};

use crate::{
    bench::{MeasureError, measure},
    cli::parse,
    failure::{Outcome, exit},
    terminal::{Interrupts, output, until_second},
};

/// Label of the sandboxes of a run, by which they are found for removal.
const LABEL: &str = "sandbar-bench";

#[derive(Args, Debug)]
#[command(
    about = "Measure this host against the same operations without it",
    long_about = "\
Measure this host against the same operations without it, in one run of well under a minute.

Sandboxes are made, used, snapshotted, rolled back, forked and removed; as a baseline the machine itself starts processes
and bwrap and reads a file. Compare the ratios: the times depend on the machine and its load. Run it on the machine of the
host. All sandboxes are removed at the end, also after Ctrl-C.",
    after_help = "\
Examples:
  sandbar bench
  sandbar bench --base debian
  sandbar bench --json | jq '.results[] | {name, median_seconds}'"
)]
pub(crate) struct BenchArgs {
    /// The base sandboxes are made from; it needs the command `true`
    #[arg(long, value_name = "NAME", default_value = "host", value_parser = parse::word::<BaseName>)]
    base: BaseName,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: BenchArgs, client: &Client) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let labels = Labels::from([(LABEL.to_owned(), SessionId::random().to_string())]);
    let stop = Cell::new(false);
    let (measured, _) = {
        let measuring = Box::pin(measure(client, &args.base, &labels, &stop));
        until_second(&mut interrupts, measuring, || stop.set(true)).await?
    };
    let report = match measured {
        Ok(report) => report,
        Err(error) => {
            let (tidied, _) =
                until_second(&mut interrupts, Box::pin(tidy(client, &labels)), || {}).await?;
            return match (error, tidied) {
                (MeasureError::Failed(error), _) | (MeasureError::Stopped, Err(error)) => {
                    Err(error.into())
                }
                (MeasureError::Stopped, Ok(())) => {
                    output::say("\nstopped; all sandboxes were removed");
                    Ok(ExitCode::from(exit::INTERRUPTED))
                }
            };
        }
    };
    if args.json {
        report.print_json()?;
    } else {
        report.print_table()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the sandboxes that an unfinished run has left.
async fn tidy(client: &Client, labels: &Labels) -> Result<()> {
    let filter = SessionFilter {
        labels: labels.clone(),
        ..SessionFilter::default()
    };
    for session in client.all_sessions(&filter).await? {
        match client.destroy_session(&session.id).await {
            Err(error) if error.code() != ErrorCode::SessionNotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
