//! Event streams: session events and directory changes.

use connectrpc::{Response, ServiceResult, ServiceStream};
use futures::{StreamExt as _, stream};
use sandbar_proto::v1;

use super::{
    errors::{failed, failed_in, host_is_stopping, stopping},
    files::address,
    service::Service,
};

/// The stream owns the watcher. A slow reader does not block the host: events it misses are dropped
/// and counted.
pub(super) fn watch_events(
    service: &Service,
    request: v1::WatchEventsRequest,
) -> ServiceResult<ServiceStream<v1::WatchEventsResponse>> {
    let watcher = service.host.watch_events(request.unpack().map_err(failed)?);
    let ready = v1::WatchReady {
        sequence: watcher.sequence(),
        ..Default::default()
    };
    let ready = v1::WatchEventsResponse {
        event: Some(ready.into()),
        ..Default::default()
    };
    let events = stream::unfold(
        Some((watcher, service.shutdown.clone())),
        |watch| async move {
            let (mut watcher, shutdown) = watch?;
            tokio::select! {
                biased;
                event = watcher.next() => Some((Ok(event.into()), Some((watcher, shutdown)))),
                () = shutdown.cancelled() => Some((Err(failed(host_is_stopping())), None)),
            }
        },
    );
    Ok(Response::new(Box::pin(
        stream::iter([Ok(ready)]).chain(events),
    )))
}

/// The stream owns the watcher. Changes queue in the kernel for a slow reader; when that queue
/// overflows, changes are dropped and the reader gets an overflow event.
pub(super) async fn watch_dir(
    service: &Service,
    request: v1::WatchDirRequest,
) -> ServiceResult<ServiceStream<v1::WatchDirResponse>> {
    let (id, path) = address(request.session_id, request.path, request.path_bytes)?;
    let watcher = service
        .host
        .watch_dir(&id, &path, request.recursive)
        .await
        .map_err(failed_in(&id))?;
    let ready = v1::WatchDirReady::default();
    let ready = v1::WatchDirResponse {
        event: Some(ready.into()),
        ..Default::default()
    };
    let events = stream::unfold(Some((watcher, service.shutdown.clone())), move |watch| {
        let id = id.clone();
        async move {
            let (mut watcher, shutdown) = watch?;
            let event = tokio::select! {
                biased;
                event = watcher.next() => event.map_err(failed_in(&id)),
                () = shutdown.cancelled() => Err(stopping(&id)),
            };
            match event {
                Ok(event) => Some((Ok(event.into()), Some((watcher, shutdown)))),
                Err(error) => Some((Err(error), None)),
            }
        }
    });
    Ok(Response::new(Box::pin(
        stream::iter([Ok(ready)]).chain(events),
    )))
}
