//! What happens to sessions, and what changes in their directories.

use connectrpc::{Response, ServiceResult, ServiceStream};
use futures::{StreamExt as _, stream};
use sandbar_proto::v1;

use crate::{
    failure::{failed, failed_in, host_is_stopping, stopping},
    files::address,
    service::Service,
};

impl Service {
    /// The watcher belongs to the answer. One that is slow holds up nobody: it misses something, and is told how much.
    pub(crate) fn tell_events(
        &self,
        request: v1::WatchEventsRequest,
    ) -> ServiceResult<ServiceStream<v1::WatchEventsResponse>> {
        let watcher = self.host.watch_events(request.unpack().map_err(failed)?);
        let ready = v1::WatchReady { sequence: watcher.sequence(), ..Default::default() };
        let ready = v1::WatchEventsResponse { event: Some(ready.into()), ..Default::default() };
        let news = stream::unfold(Some((watcher, self.shutdown.clone())), |watch| async move {
            let (mut watcher, shutdown) = watch?;
            tokio::select! {
                biased;
                news = watcher.next() => Some((Ok(news.into()), Some((watcher, shutdown)))),
                () = shutdown.cancelled() => Some((Err(failed(host_is_stopping())), None)),
            }
        });
        Ok(Response::new(Box::pin(stream::iter([Ok(ready)]).chain(news))))
    }

    /// The watcher belongs to the answer. Changes wait in the kernel for one that is slow, and are dropped when they are too
    /// many, which it is told.
    pub(crate) async fn watch_directory(
        &self,
        request: v1::WatchDirRequest,
    ) -> ServiceResult<ServiceStream<v1::WatchDirResponse>> {
        let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
        let watcher = self.host.watch_dir(&id, &path, request.recursive).await.map_err(failed_in(&id))?;
        let ready = v1::WatchDirReady::default();
        let ready = v1::WatchDirResponse { event: Some(ready.into()), ..Default::default() };
        let news = stream::unfold(Some((watcher, self.shutdown.clone())), move |watch| {
            let id = id.clone();
            async move {
                let (mut watcher, shutdown) = watch?;
                let news = tokio::select! {
                    biased;
                    news = watcher.next() => news.map_err(failed_in(&id)),
                    () = shutdown.cancelled() => Err(stopping(&id)),
                };
                match news {
                    Ok(news) => Some((Ok(news.into()), Some((watcher, shutdown)))),
                    Err(error) => Some((Err(error), None)),
                }
            }
        });
        Ok(Response::new(Box::pin(stream::iter([Ok(ready)]).chain(news))))
    }
}
