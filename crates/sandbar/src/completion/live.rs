//! Names from the host: with a short timeout, and without error messages.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sandbar_client::Client;
use sandbar_core::{Result, SessionFilter, SessionId};

use super::{Candidate, source::Names};
use crate::{
    client::connection::ConnectionOptions,
    env_vars,
    view::{process_status, shortened},
};

/// Timeout for the host to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Request for names.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameQuery<'a> {
    Names(Names),
    /// The entries of a directory in the sandbox.
    Entries(&'a str),
}

/// Host and sandbox named on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueryTarget<'a> {
    pub(super) url: Option<&'a str>,
    pub(super) ca_file: Option<&'a str>,
    pub(super) session: Option<&'a str>,
}

/// Returns the names; none if the host does not answer.
pub(super) fn names(query: NameQuery<'_>, target: QueryTarget<'_>) -> Vec<Candidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return Vec::new();
    };
    let ca_file = target
        .ca_file
        .map(PathBuf::from)
        .or_else(|| std::env::var_os(env_vars::CA_FILE).map(PathBuf::from));
    let connection = ConnectionOptions::new(target.url.map(str::to_owned), ca_file);
    let asked = runtime.block_on(async {
        let asking = async { ask(query, target, &connection.connect().await?).await };
        tokio::time::timeout(ANSWER_TIMEOUT, asking).await
    });
    runtime.shutdown_background();
    asked.ok().and_then(Result::ok).unwrap_or_default()
}

async fn ask(
    query: NameQuery<'_>,
    target: QueryTarget<'_>,
    client: &Client,
) -> Result<Vec<Candidate>> {
    let session = || SessionId::new(target.session.unwrap_or_default());
    Ok(match query {
        NameQuery::Names(Names::Sessions) => {
            let sessions = client.all_sessions(&SessionFilter::default()).await?;
            let help = |state, base| format!("{state}, from {base}");
            sessions
                .into_iter()
                .map(|found| Candidate::new(found.id, help(found.state, found.base)))
                .collect()
        }
        NameQuery::Names(Names::Snapshots) => {
            let snapshots = client.list_snapshots(&session()?).await?;
            snapshots
                .into_iter()
                .map(|found| Candidate::new(found.name, found.kind.as_str()))
                .collect()
        }
        NameQuery::Names(Names::Processes) => {
            let processes = client.list_processes(&session()?).await?;
            let help = |found| {
                format!(
                    "{}: {}",
                    process_status(found),
                    shortened(&found.argv.join(" "), 40)
                )
            };
            processes
                .iter()
                .map(|found| Candidate::new(found.id.as_str(), help(found)))
                .collect()
        }
        NameQuery::Names(Names::Bases) => {
            let bases = client.list_bases().await?;
            bases
                .into_iter()
                .map(|found| Candidate::new(found.name, shortened(&found.source, 40)))
                .collect()
        }
        NameQuery::Names(Names::Secrets) => client
            .list_secrets()
            .await?
            .into_iter()
            .map(|found| Candidate::plain(found.name))
            .collect(),
        NameQuery::Names(Names::Tokens) => client
            .list_tokens()
            .await?
            .into_iter()
            .map(|found| Candidate::plain(found.name))
            .collect(),
        NameQuery::Names(Names::Tools) => client
            .list_tools()
            .await?
            .into_iter()
            .map(|found| Candidate::new(found.name, found.description))
            .collect(),
        NameQuery::Entries(directory) => {
            let entries = client
                .list_dir(&session()?, Path::new(directory), 1)
                .await?;
            entries
                .into_iter()
                .filter_map(|found| {
                    let name = found.path.file_name()?.to_str()?.to_owned();
                    let slash = if found.entry == sandbar_core::EntryType::Directory {
                        "/"
                    } else {
                        ""
                    };
                    Some(Candidate::plain(format!("{name}{slash}")))
                })
                .collect()
        }
    })
}
