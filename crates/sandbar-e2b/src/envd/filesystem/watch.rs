//! Somebody who watches a directory, and what they are told.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use connectrpc::ConnectError;
use sandbar_core::{DirNews, Error, ErrorCode, Result, SessionId};
use sandbar_host::{DirWatcher, Host, WatchPace};

use super::{
    entry::entry_info,
    events::{Told, tell},
    names::Names,
};
use crate::{
    answer::rpc_error,
    generated::filesystem::{EventType, FilesystemEvent},
};

/// A directory under watch.
#[derive(Debug)]
pub(super) struct Watch {
    host: Arc<Host>,
    session: SessionId,
    path: PathBuf,
    /// Whom entries belong to, when events come with their entries.
    names: Option<Names>,
    watcher: DirWatcher,
    ahead: VecDeque<FilesystemEvent>,
    is_over: bool,
}

/// How a watch ends.
#[derive(Debug)]
pub(super) enum End {
    /// The directory is gone, and that was told.
    Directory,
    /// The sandbox is gone.
    Sandbox,
    Failed(ConnectError),
}

/// What to watch, and how.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) path: PathBuf,
    pub(super) recursive: bool,
    pub(super) include_entry: bool,
}

impl Watch {
    pub(super) async fn begin(host: &Arc<Host>, session: &SessionId, wish: Wish) -> Result<Self> {
        let watcher = host.watch_dir(session, &wish.path, wish.recursive).await?;
        let names = if wish.include_entry { Some(Names::of(host, session).await?) } else { None };
        Ok(Self {
            host: Arc::clone(host),
            session: session.clone(),
            path: wish.path,
            names,
            watcher,
            ahead: VecDeque::new(),
            is_over: false,
        })
    }

    /// How far it is, for those who wait for it.
    pub(super) fn pace(&self) -> Arc<WatchPace> {
        self.watcher.pace()
    }

    /// The next event. Who drops the future gives up the watch: what was read meanwhile is lost.
    pub(super) async fn next(&mut self) -> Result<FilesystemEvent, End> {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                return Ok(event);
            }
            if self.is_over {
                return Err(End::Directory);
            }
            match self.watcher.next().await {
                Ok(DirNews::Changed(change)) => {
                    for told in tell(&change) {
                        let event = self.event(&told).await;
                        self.ahead.push_back(event);
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
            // As it is told of anything else that is removed.
            ErrorCode::FileNotFound => {
                self.is_over = true;
                let kind = EventType::EVENT_TYPE_REMOVE;
                self.ahead.push_back(FilesystemEvent { name: ".".into(), r#type: kind.into(), ..Default::default() });
                Ok(())
            }
            ErrorCode::SessionNotFound => Err(End::Sandbox),
            _ => Err(End::Failed(rpc_error(error))),
        }
    }

    async fn event(&self, told: &Told<'_>) -> FilesystemEvent {
        let mut event = FilesystemEvent { name: told.name(&self.path), r#type: told.kind.into(), ..Default::default() };
        if let Some(names) = self.names.as_ref().filter(|_| told.has_entry()) {
            // It may be gone by now, and then the event comes without it.
            let entry = self.host.file_details(&self.session, told.path).await.ok();
            event.entry = entry.map(|details| entry_info(details, names)).into();
        }
        event
    }
}
