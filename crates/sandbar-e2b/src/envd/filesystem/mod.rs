//! `filesystem` over Connect: entries and directories, by the paths of the user a call is for.

mod entry;
mod events;
mod names;
mod watch;
mod watchers;

use std::{path::Path, sync::Arc, time::Duration};

use connectrpc::{ConnectError, Encodable, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream};
use futures::{StreamExt as _, stream};
use sandbar_core::{EntryType, Error, ErrorCode, MakeDirOptions};
use tokio::{sync::mpsc, time::timeout};

pub(super) use self::entry::METADATA;
use self::{
    entry::entry_info,
    names::Names,
    watch::{End, Watch, Wish},
    watchers::Watchers,
};
use super::{location::Locator, tear::Tear};
use crate::{
    answer::rpc_error,
    generated::filesystem::{
        __buffa::oneof::watch_dir_response::Event,
        CreateWatcherRequest, CreateWatcherResponse, EntryInfo, Filesystem, FilesystemEvent, FilesystemExt as _,
        GetWatcherEventsRequest, GetWatcherEventsResponse, ListDirRequest, ListDirResponse, MakeDirRequest,
        MakeDirResponse, MoveRequest, MoveResponse, RemoveRequest, RemoveResponse, RemoveWatcherRequest,
        RemoveWatcherResponse, StatRequest, StatResponse, WatchDirRequest, WatchDirResponse,
        watch_dir_response::{KeepAlive, StartEvent},
    },
    surface::Surface,
    visitor::Visitor,
};

/// Seconds between two signs of life, when nothing else comes.
const KEEPALIVE: &str = "keepalive-ping-interval";
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(90);

/// Events that wait for a slow listener; the kernel keeps the rest.
const WAITING: usize = 64;

/// Adds the service to those of envd.
pub(super) fn register(calls: connectrpc::Router, surface: &Arc<Surface>) -> connectrpc::Router {
    Arc::new(Files { surface: Arc::clone(surface), watchers: Watchers::default() }).register(calls)
}

/// The files of sandboxes.
struct Files {
    surface: Arc<Surface>,
    watchers: Watchers,
}

impl Files {
    async fn locator(&self, visitor: &Visitor) -> Result<Locator, ConnectError> {
        Ok(Locator::new(self.surface.account(visitor).await?, visitor))
    }

    async fn entry(&self, visitor: &Visitor, path: &Path) -> Result<EntryInfo, ConnectError> {
        let host = &self.surface.host;
        let details = host.file_details(&visitor.session, path).await.map_err(missing("file not found"))?;
        let names = Names::of(host, &visitor.session).await.map_err(rpc_error)?;
        Ok(entry_info(details, &names))
    }

    /// Refuses what is not a directory.
    async fn require_directory(&self, visitor: &Visitor, path: &Path) -> Result<(), ConnectError> {
        let shown = path.display();
        let details = self.surface.host.file_details(&visitor.session, path).await;
        let details = details.map_err(missing("directory not found"))?;
        let kind = details.link_end.map_or(details.stat.entry, |end| end.entry);
        match kind {
            EntryType::Directory => Ok(()),
            EntryType::Symlink => Err(ConnectError::not_found(format!("directory not found: {shown} leads nowhere"))),
            _ => Err(ConnectError::invalid_argument(format!("path is not a directory: {shown}"))),
        }
    }

    async fn watch(
        &self,
        visitor: &Visitor,
        path: &str,
        recursive: bool,
        include_entry: bool,
    ) -> Result<Watch, ConnectError> {
        let path = self.locator(visitor).await?.resolve(path).map_err(rpc_error)?;
        self.require_directory(visitor, &path).await?;
        let wish = Wish { path, recursive, include_entry };
        Watch::begin(&self.surface.host, &visitor.session, wish).await.map_err(rpc_error)
    }
}

/// An error with the words E2B has for what is not there.
fn missing(what: &str) -> impl Fn(Error) -> ConnectError {
    move |error| match error.code() {
        ErrorCode::FileNotFound => ConnectError::not_found(format!("{what}: {}", error.message())),
        _ => rpc_error(error),
    }
}

impl Filesystem for Files {
    async fn stat<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, StatRequest>,
    ) -> ServiceResult<impl Encodable<StatResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let path = self.locator(visitor).await?.resolve(request.path).map_err(rpc_error)?;
        let entry = self.entry(visitor, &path).await?;
        Response::ok(StatResponse { entry: entry.into(), ..Default::default() })
    }

    async fn make_dir<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, MakeDirRequest>,
    ) -> ServiceResult<impl Encodable<MakeDirResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let locator = self.locator(visitor).await?;
        let path = locator.resolve_for_change(request.path).map_err(rpc_error)?;
        let shown = path.display();
        let options = MakeDirOptions { create_dirs: true, owner: Some(locator.owner()) };
        match self.surface.host.make_dir(&visitor.session, &path, options).await {
            Ok(true) => {}
            Ok(false) => return Err(ConnectError::already_exists(format!("directory already exists: {shown}"))),
            Err(error) if matches!(error.code(), ErrorCode::InvalidArgument | ErrorCode::FileNotFound) => {
                let why = format!("path already exists but it is not a directory: {shown}");
                return Err(ConnectError::invalid_argument(why));
            }
            Err(error) => return Err(rpc_error(error)),
        }
        self.surface.host.changes_told(&visitor.session).await;
        let entry = self.entry(visitor, &path).await?;
        Response::ok(MakeDirResponse { entry: entry.into(), ..Default::default() })
    }

    async fn r#move<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, MoveRequest>,
    ) -> ServiceResult<impl Encodable<MoveResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let locator = self.locator(visitor).await?;
        let source = locator.resolve_for_change(request.source).map_err(rpc_error)?;
        let destination = locator.resolve_for_change(request.destination).map_err(rpc_error)?;
        let options = MakeDirOptions { create_dirs: true, owner: Some(locator.owner()) };
        let moved = self.surface.host.move_path(&visitor.session, &source, &destination, options).await;
        moved.map_err(missing("source file not found"))?;
        self.surface.host.changes_told(&visitor.session).await;
        let entry = self.entry(visitor, &destination).await?;
        Response::ok(MoveResponse { entry: entry.into(), ..Default::default() })
    }

    async fn list_dir<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, ListDirRequest>,
    ) -> ServiceResult<impl Encodable<ListDirResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let path = self.locator(visitor).await?.resolve(request.path).map_err(rpc_error)?;
        self.require_directory(visitor, &path).await?;
        let host = &self.surface.host;
        let listed = host.list_details(&visitor.session, &path, request.depth.max(1)).await;
        let listed = listed.map_err(missing("directory not found"))?;
        let names = Names::of(host, &visitor.session).await.map_err(rpc_error)?;
        let entries = listed.into_iter().map(|details| entry_info(details, &names)).collect();
        Response::ok(ListDirResponse { entries, ..Default::default() })
    }

    async fn remove<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, RemoveRequest>,
    ) -> ServiceResult<impl Encodable<RemoveResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let path = self.locator(visitor).await?.resolve_for_change(request.path).map_err(rpc_error)?;
        self.surface.host.remove_path(&visitor.session, &path).await.map_err(rpc_error)?;
        self.surface.host.changes_told(&visitor.session).await;
        Response::ok(RemoveResponse::default())
    }

    async fn watch_dir(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<WatchDirResponse> + Send + use<>>> {
        let visitor = Visitor::of(&context)?;
        let watch = self.watch(visitor, request.path, request.recursive, request.include_entry).await?;
        let keepalive = context.header(KEEPALIVE).and_then(|value| value.to_str().ok()?.parse().ok());
        let keepalive = keepalive.filter(|seconds| *seconds > 0).map_or(DEFAULT_KEEPALIVE, Duration::from_secs);
        Ok(Response::new(events(watch, keepalive, Tear::of(&context))))
    }

    async fn create_watcher<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, CreateWatcherRequest>,
    ) -> ServiceResult<impl Encodable<CreateWatcherResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let watch = self.watch(visitor, request.path, request.recursive, request.include_entry).await?;
        let watcher_id = self.watchers.add(&visitor.session, watch)?;
        Response::ok(CreateWatcherResponse { watcher_id, ..Default::default() })
    }

    async fn get_watcher_events<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, GetWatcherEventsRequest>,
    ) -> ServiceResult<impl Encodable<GetWatcherEventsResponse> + Send + use<'a>> {
        let events = self.watchers.take(&Visitor::of(&context)?.session, request.watcher_id).await?;
        Response::ok(GetWatcherEventsResponse { events, ..Default::default() })
    }

    async fn remove_watcher<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, RemoveWatcherRequest>,
    ) -> ServiceResult<impl Encodable<RemoveWatcherResponse> + Send + use<'a>> {
        self.watchers.remove(&Visitor::of(&context)?.session, request.watcher_id)?;
        Response::ok(RemoveWatcherResponse::default())
    }
}

/// The events of a watch: `start` first, and signs of life when nothing happens.
fn events(watch: Watch, keepalive: Duration, tear: Tear) -> ServiceStream<WatchDirResponse> {
    let start = stream::iter([Ok(message(StartEvent::default()))]);
    let rest = stream::unfold((follow(watch), tear), move |(mut told, tear)| async move {
        let event = match timeout(keepalive, told.recv()).await {
            Err(_) => Ok(message(KeepAlive::default())),
            Ok(Some(Ok(event))) => Ok(message(event)),
            Ok(None | Some(Err(End::Directory))) => return None,
            Ok(Some(Err(End::Sandbox))) => match tear.now().await {},
            Ok(Some(Err(End::Failed(error)))) => Err(error),
        };
        Some((event, (told, tear)))
    });
    Box::pin(start.chain(rest))
}

/// Follows a watch in a task of its own, until nobody listens or it ends: one that is interrupted would lose something.
fn follow(mut watch: Watch) -> mpsc::Receiver<Result<FilesystemEvent, End>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = watch.next() => next,
                () = sender.closed() => return,
            };
            let is_over = next.is_err();
            if sender.send(next).await.is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

fn message(event: impl Into<Event>) -> WatchDirResponse {
    WatchDirResponse { event: Some(event.into()), ..Default::default() }
}
