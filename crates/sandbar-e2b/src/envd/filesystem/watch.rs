//! Watching a directory.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use connectrpc::ConnectError;
use sandbar_core::{DirNews, Error, ErrorCode, Result, SessionId};
use sandbar_host::{DirWatcher, Host, WatchPace};

use super::{
    changes::{PathEvent, events_of},
    entry::entry_info,
    names::Names,
};
use crate::{
    generated::filesystem::{EventType, FilesystemEvent},
    rest::rpc_error,
};

/// A watched directory.
#[derive(Debug)]
pub(super) struct Watch {
    host: Arc<Host>,
    session: SessionId,
    path: PathBuf,
    /// Names of owners, if events include entries.
    names: Option<Names>,
    watcher: DirWatcher,
    /// Events of a change that were not returned yet.
    queued: VecDeque<FilesystemEvent>,
    is_over: bool,
}

/// End of a watch.
#[derive(Debug)]
pub(super) enum End {
    /// The directory was removed, and that was reported.
    Directory,
    /// The sandbox was destroyed or stopped.
    Sandbox,
    Failed(ConnectError),
}

/// Directory and options of a watch.
#[derive(Debug)]
pub(super) struct WatchOptions {
    pub(super) path: PathBuf,
    pub(super) recursive: bool,
    pub(super) include_entry: bool,
}

impl Watch {
    pub(super) async fn begin(
        host: &Arc<Host>,
        session: &SessionId,
        options: WatchOptions,
    ) -> Result<Self> {
        let watcher = host
            .watch_dir(session, &options.path, options.recursive)
            .await?;
        let names = if options.include_entry {
            Some(Names::of(host, session).await?)
        } else {
            None
        };
        Ok(Self {
            host: Arc::clone(host),
            session: session.clone(),
            path: options.path,
            names,
            watcher,
            queued: VecDeque::new(),
            is_over: false,
        })
    }

    /// Returns the progress of the watch, to wait until it has caught up.
    pub(super) fn pace(&self) -> Arc<WatchPace> {
        self.watcher.pace()
    }

    /// Returns the next event. Not cancel-safe: dropping the future may lose events.
    pub(super) async fn next(&mut self) -> Result<FilesystemEvent, End> {
        loop {
            if let Some(event) = self.queued.pop_front() {
                return Ok(event);
            }
            if self.is_over {
                return Err(End::Directory);
            }
            match self.watcher.next().await {
                Ok(DirNews::Changed(change)) => {
                    for path_event in events_of(&change) {
                        let event = self.event(&path_event).await;
                        self.queued.push_back(event);
                    }
                }
                Ok(DirNews::Overflow) => {
                    let lost = "watcher error: fsnotify: queue or buffer overflow";
                    return Err(End::Failed(ConnectError::internal(lost)));
                }
                Err(error) => self.end(error)?,
            }
        }
    }

    fn end(&mut self, error: Error) -> Result<(), End> {
        match error.code() {
            // Reported like the removal of any other entry.
            ErrorCode::FileNotFound => {
                self.is_over = true;
                let kind = EventType::EVENT_TYPE_REMOVE;
                self.queued.push_back(FilesystemEvent {
                    name: ".".into(),
                    r#type: kind.into(),
                    ..Default::default()
                });
                Ok(())
            }
            ErrorCode::SessionNotFound => Err(End::Sandbox),
            _ => Err(End::Failed(rpc_error(error))),
        }
    }

    async fn event(&self, change: &PathEvent<'_>) -> FilesystemEvent {
        let mut event = FilesystemEvent {
            name: change.name(&self.path),
            r#type: change.kind.into(),
            ..Default::default()
        };
        if let Some(names) = self.names.as_ref().filter(|_| change.has_entry()) {
            // The entry may be gone by now; the event is then sent without it.
            let entry = self
                .host
                .file_details(&self.session, change.path)
                .await
                .ok();
            event.entry = entry.map(|details| entry_info(details, names)).into();
        }
        event
    }
}
