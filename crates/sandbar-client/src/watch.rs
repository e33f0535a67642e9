//! Event streams: session events and directory changes.

use std::{fmt, path::Path};

use connectrpc::client::ServerStream;
use sandbar_core::{DirNews, EventNews, EventQuery, Result, SessionId};
use sandbar_proto::{
    pack_path, unpack_dir_news, unpack_event_news,
    v1::{self, watch_dir_response, watch_events_response},
};

use crate::{Client, client::incomplete, transport::ResponseBody};

impl Client {
    /// Watches events of sessions. No event after this returns is missed.
    pub async fn watch_events(&self, query: EventQuery) -> Result<RemoteEvents> {
        let mut news = self
            .once(self.rpc.watch_events(v1::WatchEventsRequest::new(query)))
            .await?;
        let first = self
            .once(news.message())
            .await?
            .and_then(|message| message.to_owned_message().event);
        let Some(watch_events_response::Event::Ready(ready)) = first else {
            return Err(incomplete("ready"));
        };
        Ok(RemoteEvents {
            client: self.clone(),
            sequence: ready.sequence,
            news,
        })
    }

    /// Watches a directory of a session, with `recursive` the tree below it. No change after this
    /// returns is missed.
    pub async fn watch_dir(
        &self,
        id: &SessionId,
        path: &Path,
        recursive: bool,
    ) -> Result<RemoteWatch> {
        let (path, path_bytes) = pack_path(path);
        let session_id = id.as_str().to_owned();
        let request = v1::WatchDirRequest {
            session_id,
            path,
            path_bytes,
            recursive,
            ..Default::default()
        };
        let mut news = self.once(self.rpc.watch_dir(request)).await?;
        let first = self
            .once(news.message())
            .await?
            .and_then(|message| message.to_owned_message().event);
        let Some(watch_dir_response::Event::Ready(_)) = first else {
            return Err(incomplete("ready"));
        };
        Ok(RemoteWatch {
            client: self.clone(),
            news,
        })
    }
}

/// Stream of session events.
pub struct RemoteEvents {
    /// Sequence number of the last event before the watch.
    pub sequence: u64,
    client: Client,
    news: ServerStream<ResponseBody, v1::WatchEventsResponseView<'static>>,
}

impl RemoteEvents {
    /// Returns the next event. The stream ends with an error when the host stops.
    pub async fn next(&mut self) -> Result<Option<EventNews>> {
        while let Some(message) = self.client.once(self.news.message()).await? {
            if let Some(news) = message
                .to_owned_message()
                .event
                .map(unpack_event_news)
                .transpose()?
                .flatten()
            {
                return Ok(Some(news));
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for RemoteEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteEvents")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// Stream of directory changes.
pub struct RemoteWatch {
    client: Client,
    news: ServerStream<ResponseBody, v1::WatchDirResponseView<'static>>,
}

impl RemoteWatch {
    /// Returns the next change. An error ends the stream: session, directory or host are gone.
    pub async fn next(&mut self) -> Result<Option<DirNews>> {
        while let Some(message) = self.client.once(self.news.message()).await? {
            if let Some(news) = message
                .to_owned_message()
                .event
                .map(unpack_dir_news)
                .transpose()?
                .flatten()
            {
                return Ok(Some(news));
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for RemoteWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteWatch").finish_non_exhaustive()
    }
}
