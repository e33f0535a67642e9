//! What happens to sessions, and what changes in their directories.

use connectrpc::{Response, ServiceResult, ServiceStream};
use futures::{StreamExt as _, stream};
use sandbar_proto::v1;

use crate::{
    failure::{failed, host_is_stopping},
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
}
