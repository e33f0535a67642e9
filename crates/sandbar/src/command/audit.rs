//! `sandbar audit`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{
    AuditEntry, AuditOrder, AuditQuery, AuditVerdict, Error, ErrorCode, PageRequest, Result, SessionId,
};

use crate::{
    arguments::SandboxArg,
    failure::Outcome,
    output::{self, printable},
    view::{AuditView, audit_detail, moment},
};

#[derive(Args, Debug)]
#[command(
    about = "Show what happened to a sandbox: who did what, when, and what came of it",
    long_about = "\
Show what happened to a sandbox: who did what, when, and what came of it; oldest first.

The log of a sandbox that was removed is kept for a while. Every entry is chained to the one before: --verify tells
whether the log is as it was written, and ends with 1 when it is not.",
    after_help = "\
Examples:
  sandbar audit build-42
  sandbar audit build-42 -n 20
  sandbar audit build-42 --json | jq -r '.[] | select(.outcome != \"ok\")'
  sandbar audit build-42 --verify"
)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Only the last so many entries
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<usize>,
    /// Tell whether the log is as it was written
    #[arg(long, conflicts_with_all = ["last", "quiet", "json"])]
    verify: bool,
    /// Print the numbers of entries only
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn execute(args: AuditArgs, client: &Client) -> Outcome {
    if args.verify {
        return verify(&args.sandbox.id, client).await;
    }
    let entries = last_entries(&args.sandbox.id, args.last.unwrap_or(usize::MAX), client).await?;
    if args.json {
        output::json(&entries.iter().map(AuditView::from).collect::<Vec<_>>())?;
    } else if args.quiet {
        entries.iter().try_for_each(|entry| output::line(entry.number))?;
    } else {
        output::table(["TIME", "WHO", "WHAT", "OUTCOME", "DETAIL"], entries.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The last `count` entries, oldest first.
async fn last_entries(id: &SessionId, count: usize, client: &Client) -> Result<Vec<AuditEntry>> {
    let mut entries = Vec::new();
    let mut token = None;
    while entries.len() < count {
        let size = (count - entries.len()).min(PageRequest::LARGEST_SIZE);
        let query = AuditQuery { order: AuditOrder::NewestFirst, after: None, page: PageRequest { size, token } };
        let page = client.audit(id, &query).await?;
        entries.extend(page.items);
        token = page.next_token;
        if token.is_none() {
            break;
        }
    }
    entries.reverse();
    Ok(entries)
}

async fn verify(id: &SessionId, client: &Client) -> Outcome {
    match client.verify_audit(id).await? {
        AuditVerdict::Intact { entries, head } => {
            let head = head.map(|head| format!(", the last is {head}")).unwrap_or_default();
            output::line(format_args!("intact: {entries} entries{head}"))?;
            Ok(ExitCode::SUCCESS)
        }
        AuditVerdict::Broken { number } => {
            let what = format!("the log of `{id}` is not as it was written: entry {number} does not follow");
            Err(Error::new(ErrorCode::InvalidState, what)
                .with_hint("it was changed, or an entry before it was changed, removed or moved")
                .into())
        }
    }
}

fn row(entry: &AuditEntry) -> [String; 5] {
    [
        moment(entry.at),
        printable(entry.who.as_str().as_bytes()),
        printable(entry.what.as_bytes()),
        printable(entry.outcome.as_bytes()),
        audit_detail(&entry.detail),
    ]
}
