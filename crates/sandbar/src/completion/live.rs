//! Names a host knows, asked for while somebody types: quickly, and without a word when it does not work.

use std::{path::Path, time::Duration};

use sandbar_client::Client;
use sandbar_core::{Result, SessionFilter, SessionId};

use super::{Candidate, source::Names};
use crate::{
    connection::connect,
    view::{process_status, shortened},
};

/// Longer than this nobody wants to wait for a key.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is wanted of a host.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted<'a> {
    Names(Names),
    /// The entries of a directory in the sandbox.
    Entries(&'a str),
}

/// The host and the sandbox the command line names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place<'a> {
    pub(super) url: Option<&'a str>,
    pub(super) session: Option<&'a str>,
}

/// The names there are; none when the host does not answer.
pub(super) fn names(wanted: Wanted<'_>, place: Place<'_>) -> Vec<Candidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let asked = runtime.block_on(async {
        let asking = async { ask(wanted, place, &connect(place.url).await?).await };
        tokio::time::timeout(PATIENCE, asking).await
    });
    runtime.shutdown_background();
    asked.ok().and_then(Result::ok).unwrap_or_default()
}

async fn ask(wanted: Wanted<'_>, place: Place<'_>, client: &Client) -> Result<Vec<Candidate>> {
    let session = || SessionId::new(place.session.unwrap_or_default());
    Ok(match wanted {
        Wanted::Names(Names::Sessions) => {
            let sessions = client.all_sessions(&SessionFilter::default()).await?;
            let help = |state, base| format!("{state}, from {base}");
            sessions.into_iter().map(|found| Candidate::new(found.id, help(found.state, found.base))).collect()
        }
        Wanted::Names(Names::Snapshots) => {
            let snapshots = client.list_snapshots(&session()?).await?;
            snapshots.into_iter().map(|found| Candidate::new(found.name, found.kind.as_str())).collect()
        }
        Wanted::Names(Names::Processes) => {
            let processes = client.list_processes(&session()?).await?;
            let help = |found| format!("{}: {}", process_status(found), shortened(&found.argv.join(" "), 40));
            processes.iter().map(|found| Candidate::new(found.id.as_str(), help(found))).collect()
        }
        Wanted::Names(Names::Bases) => {
            let bases = client.list_bases().await?;
            bases.into_iter().map(|found| Candidate::new(found.name, shortened(&found.source, 40))).collect()
        }
        Wanted::Names(Names::Secrets) => {
            client.list_secrets().await?.into_iter().map(|found| Candidate::plain(found.name)).collect()
        }
        Wanted::Names(Names::Tools) => {
            client.list_tools().await?.into_iter().map(|found| Candidate::new(found.name, found.description)).collect()
        }
        Wanted::Entries(directory) => {
            let entries = client.list_dir(&session()?, Path::new(directory), 1).await?;
            entries
                .into_iter()
                .filter_map(|found| {
                    let name = found.path.file_name()?.to_str()?.to_owned();
                    let slash = if found.entry == sandbar_core::EntryType::Directory { "/" } else { "" };
                    Some(Candidate::plain(format!("{name}{slash}")))
                })
                .collect()
        }
    })
}
