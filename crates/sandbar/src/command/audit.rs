//! `sandbar audit`.

use std::process::ExitCode;

use clap::Args;
use sandbar_client::Client;
use sandbar_core::{
    AuditEntry, AuditOrder, AuditQuery, AuditVerdict, Error, ErrorCode, PageRequest, Result,
    SessionId,
};

use crate::{
    cli::arguments::SandboxArg,
    failure::Outcome,
    terminal::output::{self, printable},
    view::{AuditView, audit_detail, moment},
};

#[derive(Args, Debug)]
#[command(
    about = "Show the audit log of a sandbox: caller, operation, time and outcome",
    long_about = "\
Show the audit log of a sandbox: caller, operation, time and outcome; oldest first.

The log of a removed sandbox is kept for `audit_retention`. Every entry holds a hash of the one before: --verify checks the
chain, and exits with 1 if an entry was changed, removed or moved.",
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
    /// Only the last N entries
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<usize>,
    /// Check that no entry was changed, removed or moved
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
        entries
            .iter()
            .try_for_each(|entry| output::line(entry.number))?;
    } else {
        output::table(
            ["TIME", "WHO", "WHAT", "OUTCOME", "DETAIL"],
            entries.iter().map(row),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the last `count` entries, oldest first.
async fn last_entries(id: &SessionId, count: usize, client: &Client) -> Result<Vec<AuditEntry>> {
    let mut entries = Vec::new();
    let mut token = None;
    while entries.len() < count {
        let size = (count - entries.len()).min(PageRequest::MAX_SIZE);
        let query = AuditQuery {
            order: AuditOrder::NewestFirst,
            after: None,
            page: PageRequest { size, token },
        };
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
            let head = head
                .map(|head| format!(", the last is {head}"))
                .unwrap_or_default();
            output::line(format_args!("intact: {entries} entries{head}"))?;
            Ok(ExitCode::SUCCESS)
        }
        AuditVerdict::Broken { number } => {
            let what =
                format!("audit log of `{id}` is broken: the hash of entry {number} does not match");
            Err(Error::new(ErrorCode::InvalidState, what)
                .with_hint("this entry or an earlier one was changed, removed or moved")
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
