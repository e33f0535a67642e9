//! `sandbar audit`.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandbar_client::Client;
use sandbar_core::{
    AuditEntry, AuditOrder, AuditQuery, AuditVerdict, Error, ErrorCode, PageRequest, Result, SessionId,
};

use crate::{
    arguments::{flag, id, json, option, optional, quiet, required},
    failure::Outcome,
    output::{self, printable},
    view::{AuditView, audit_detail, moment},
};

#[derive(Debug)]
pub(crate) struct AuditArgs {
    id: SessionId,
    last: Option<usize>,
    verify: bool,
    quiet: bool,
    json: bool,
}

pub(crate) fn define() -> Command {
    Command::new("audit")
        .about("Show what happened to a sandbox: who did what, when, and what came of it")
        .long_about(
            "\
Show what happened to a sandbox: who did what, when, and what came of it; oldest first.

The log of a sandbox that was removed is kept for a while. Every entry is chained to the one before: --verify tells
whether the log is as it was written, and ends with 1 when it is not.",
        )
        .after_help(
            "\
Examples:
  sandbar audit build-42
  sandbar audit build-42 -n 20
  sandbar audit build-42 --json | jq -r '.[] | select(.outcome != \"ok\")'
  sandbar audit build-42 --verify",
        )
        .args([
            id(),
            option("last", "N", "Only the last so many entries").short('n').value_parser(clap::value_parser!(usize)),
            flag("verify", "Tell whether the log is as it was written").conflicts_with_all(["last", "quiet", "json"]),
            quiet("Print the numbers of entries only"),
            json(),
        ])
}

impl AuditArgs {
    pub(crate) fn read(matches: &mut ArgMatches) -> Result<Self> {
        Ok(Self {
            id: required(matches, "id")?,
            last: optional(matches, "last"),
            verify: matches.get_flag("verify"),
            quiet: matches.get_flag("quiet"),
            json: matches.get_flag("json"),
        })
    }
}

pub(crate) async fn execute(args: AuditArgs, client: &Client) -> Outcome {
    if args.verify {
        return verify(&args.id, client).await;
    }
    let entries = last_entries(&args.id, args.last.unwrap_or(usize::MAX), client).await?;
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
