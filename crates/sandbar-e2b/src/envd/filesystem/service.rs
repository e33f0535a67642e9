//! The calls of `filesystem`.

use std::{path::Path, sync::Arc};

use connectrpc::{
    ConnectError, Encodable, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use sandbar_core::{EntryType, Error, ErrorCode, MakeDirOptions};

use super::{
    entry::entry_info,
    names::Names,
    watch::{Watch, WatchOptions},
    watch_stream::watch_stream,
    watchers::Watchers,
};
use crate::{
    auth::SessionCaller,
    envd::{Envd, location::Locator},
    generated::filesystem::{
        CreateWatcherRequest, CreateWatcherResponse, EntryInfo, Filesystem, FilesystemExt as _,
        GetWatcherEventsRequest, GetWatcherEventsResponse, ListDirRequest, ListDirResponse,
        MakeDirRequest, MakeDirResponse, MoveRequest, MoveResponse, RemoveRequest, RemoveResponse,
        RemoveWatcherRequest, RemoveWatcherResponse, StatRequest, StatResponse, WatchDirRequest,
        WatchDirResponse,
    },
    rest::rpc_error,
};

/// Adds the service to those of envd.
pub(in crate::envd) fn register(calls: connectrpc::Router, envd: &Arc<Envd>) -> connectrpc::Router {
    Arc::new(Files {
        envd: Arc::clone(envd),
        watchers: Watchers::default(),
    })
    .register(calls)
}

/// The files of sandboxes.
struct Files {
    envd: Arc<Envd>,
    watchers: Watchers,
}

impl Files {
    async fn locator(&self, caller: &SessionCaller) -> Result<Locator, ConnectError> {
        Ok(Locator::new(self.envd.account(caller).await?, caller))
    }

    async fn entry(&self, caller: &SessionCaller, path: &Path) -> Result<EntryInfo, ConnectError> {
        let host = &self.envd.host;
        let details = host
            .file_details(&caller.session, path)
            .await
            .map_err(missing("file not found"))?;
        let names = Names::of(host, &caller.session).await.map_err(rpc_error)?;
        Ok(entry_info(details, &names))
    }

    /// Fails unless the path is a directory.
    async fn require_directory(
        &self,
        caller: &SessionCaller,
        path: &Path,
    ) -> Result<(), ConnectError> {
        let shown = path.display();
        let details = self.envd.host.file_details(&caller.session, path).await;
        let details = details.map_err(missing("directory not found"))?;
        let kind = details.link_end.map_or(details.stat.entry, |end| end.entry);
        match kind {
            EntryType::Directory => Ok(()),
            EntryType::Symlink => Err(ConnectError::not_found(format!(
                "directory not found: {shown} leads nowhere"
            ))),
            _ => Err(ConnectError::invalid_argument(format!(
                "path is not a directory: {shown}"
            ))),
        }
    }

    async fn watch(
        &self,
        caller: &SessionCaller,
        path: &str,
        recursive: bool,
        include_entry: bool,
    ) -> Result<Watch, ConnectError> {
        let path = self
            .locator(caller)
            .await?
            .resolve(path)
            .map_err(rpc_error)?;
        self.require_directory(caller, &path).await?;
        let options = WatchOptions {
            path,
            recursive,
            include_entry,
        };
        Watch::begin(&self.envd.host, &caller.session, options)
            .await
            .map_err(rpc_error)
    }
}

/// Converts an error, with E2B's text for a missing file.
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
        let caller = SessionCaller::of(&context)?;
        let path = self
            .locator(caller)
            .await?
            .resolve(request.path)
            .map_err(rpc_error)?;
        let entry = self.entry(caller, &path).await?;
        Response::ok(StatResponse {
            entry: entry.into(),
            ..Default::default()
        })
    }

    async fn make_dir<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, MakeDirRequest>,
    ) -> ServiceResult<impl Encodable<MakeDirResponse> + Send + use<'a>> {
        let caller = SessionCaller::of(&context)?;
        let locator = self.locator(caller).await?;
        let path = locator
            .resolve_for_change(request.path)
            .map_err(rpc_error)?;
        let shown = path.display();
        let options = MakeDirOptions {
            create_dirs: true,
            owner: Some(locator.owner()),
        };
        match self
            .envd
            .host
            .make_dir(&caller.session, &path, options)
            .await
        {
            Ok(true) => {}
            Ok(false) => {
                return Err(ConnectError::already_exists(format!(
                    "directory already exists: {shown}"
                )));
            }
            Err(error)
                if matches!(
                    error.code(),
                    ErrorCode::InvalidArgument | ErrorCode::FileNotFound
                ) =>
            {
                let why = format!("path already exists but it is not a directory: {shown}");
                return Err(ConnectError::invalid_argument(why));
            }
            Err(error) => return Err(rpc_error(error)),
        }
        self.envd.host.changes_delivered(&caller.session).await;
        let entry = self.entry(caller, &path).await?;
        Response::ok(MakeDirResponse {
            entry: entry.into(),
            ..Default::default()
        })
    }

    async fn r#move<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, MoveRequest>,
    ) -> ServiceResult<impl Encodable<MoveResponse> + Send + use<'a>> {
        let caller = SessionCaller::of(&context)?;
        let locator = self.locator(caller).await?;
        let source = locator
            .resolve_for_change(request.source)
            .map_err(rpc_error)?;
        let destination = locator
            .resolve_for_change(request.destination)
            .map_err(rpc_error)?;
        let options = MakeDirOptions {
            create_dirs: true,
            owner: Some(locator.owner()),
        };
        let moved = self
            .envd
            .host
            .move_path(&caller.session, &source, &destination, options)
            .await;
        moved.map_err(missing("source file not found"))?;
        self.envd.host.changes_delivered(&caller.session).await;
        let entry = self.entry(caller, &destination).await?;
        Response::ok(MoveResponse {
            entry: entry.into(),
            ..Default::default()
        })
    }

    async fn list_dir<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, ListDirRequest>,
    ) -> ServiceResult<impl Encodable<ListDirResponse> + Send + use<'a>> {
        let caller = SessionCaller::of(&context)?;
        let path = self
            .locator(caller)
            .await?
            .resolve(request.path)
            .map_err(rpc_error)?;
        self.require_directory(caller, &path).await?;
        let host = &self.envd.host;
        let listed = host
            .list_details(&caller.session, &path, request.depth.max(1))
            .await;
        let listed = listed.map_err(missing("directory not found"))?;
        let names = Names::of(host, &caller.session).await.map_err(rpc_error)?;
        let entries = listed
            .into_iter()
            .map(|details| entry_info(details, &names))
            .collect();
        Response::ok(ListDirResponse {
            entries,
            ..Default::default()
        })
    }

    async fn remove<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, RemoveRequest>,
    ) -> ServiceResult<impl Encodable<RemoveResponse> + Send + use<'a>> {
        let caller = SessionCaller::of(&context)?;
        let path = self
            .locator(caller)
            .await?
            .resolve_for_change(request.path)
            .map_err(rpc_error)?;
        self.envd
            .host
            .remove_path(&caller.session, &path)
            .await
            .map_err(rpc_error)?;
        self.envd.host.changes_delivered(&caller.session).await;
        Response::ok(RemoveResponse::default())
    }

    async fn watch_dir(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<WatchDirResponse> + Send + use<>>> {
        let caller = SessionCaller::of(&context)?;
        let watch = self
            .watch(
                caller,
                request.path,
                request.recursive,
                request.include_entry,
            )
            .await?;
        Ok(Response::new(watch_stream(watch, &context)))
    }

    async fn create_watcher<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, CreateWatcherRequest>,
    ) -> ServiceResult<impl Encodable<CreateWatcherResponse> + Send + use<'a>> {
        let caller = SessionCaller::of(&context)?;
        let watch = self
            .watch(
                caller,
                request.path,
                request.recursive,
                request.include_entry,
            )
            .await?;
        let watcher_id = self.watchers.add(&caller.session, watch)?;
        Response::ok(CreateWatcherResponse {
            watcher_id,
            ..Default::default()
        })
    }

    async fn get_watcher_events<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, GetWatcherEventsRequest>,
    ) -> ServiceResult<impl Encodable<GetWatcherEventsResponse> + Send + use<'a>> {
        let events = self
            .watchers
            .take(&SessionCaller::of(&context)?.session, request.watcher_id)
            .await?;
        Response::ok(GetWatcherEventsResponse {
            events,
            ..Default::default()
        })
    }

    async fn remove_watcher<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, RemoveWatcherRequest>,
    ) -> ServiceResult<impl Encodable<RemoveWatcherResponse> + Send + use<'a>> {
        self.watchers
            .remove(&SessionCaller::of(&context)?.session, request.watcher_id)?;
        Response::ok(RemoveWatcherResponse::default())
    }
}
