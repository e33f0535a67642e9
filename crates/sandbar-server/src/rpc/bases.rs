//! Calls about bases.

use std::sync::Arc;

use connectrpc::{ConnectError, Response, ServiceResult, ServiceStream};
use futures::stream;
use sandbar_core::{BaseInfo, BaseName, Error};
use sandbar_host::{Credentials, Host, ImageReference, ImportProgress, ImportSource};
use sandbar_proto::v1;
use tokio::{sync::watch, task::JoinError};
use tokio_util::task::AbortOnDropHandle;

use super::{
    errors::{failed, failed_in},
    service::Service,
};

pub(super) async fn list_bases(service: &Service) -> ServiceResult<v1::ListBasesResponse> {
    let bases = service.host.list_bases().await.map_err(failed)?;
    Response::ok(v1::ListBasesResponse {
        bases: bases.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

pub(super) fn import_base(
    service: &Service,
    request: v1::ImportBaseRequest,
) -> ServiceResult<ServiceStream<v1::ImportBaseResponse>> {
    let name = BaseName::new(request.name).map_err(|error| failed(error.with_field("name")))?;
    let credentials = request.credentials.into_option();
    let credentials = credentials.map(|given| Credentials {
        username: given.username,
        password: given.password,
    });
    if !request.image.is_empty() {
        if !request.source.is_empty() {
            let both = Error::invalid("image", "`source` and `image` are both set")
                .with_hint("set one of them");
            return Err(failed(both));
        }
        let image: ImageReference = request.image.parse().map_err(failed)?;
        let origin = Origin::Registry(image, credentials);
        return Ok(Response::new(Box::pin(import(
            service.host.clone(),
            name,
            origin,
        ))));
    }
    if credentials.is_some() {
        let error = Error::invalid("credentials", "`credentials` are set without `image`");
        return Err(failed(
            error.with_hint("set `image`, or omit the credentials"),
        ));
    }
    if request.source != "host" && !request.source.starts_with('/') {
        return Err(failed(
            Error::invalid(
                "source",
                format!(
                    "source `{}` is not an absolute path",
                    request.source.escape_debug()
                ),
            )
            .with_hint("use `host`, or an absolute path on the host"),
        ));
    }
    let source =
        ImportSource::parse(&request.source).map_err(|error| failed(error.with_field("source")))?;
    Ok(Response::new(Box::pin(import(
        service.host.clone(),
        name,
        Origin::Disk(source),
    ))))
}

pub(super) async fn save_base(
    service: &Service,
    request: v1::SaveBaseRequest,
) -> ServiceResult<v1::SaveBaseResponse> {
    let (id, request) = request.unpack().map_err(failed)?;
    let base = service
        .host
        .save_base_as(&id, request)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::SaveBaseResponse {
        base: v1::Base::from(base).into(),
        ..Default::default()
    })
}

pub(super) async fn delete_base(
    service: &Service,
    request: v1::DeleteBaseRequest,
) -> ServiceResult<v1::DeleteBaseResponse> {
    let name = BaseName::new(request.name).map_err(|error| failed(error.with_field("name")))?;
    service.host.delete_base(&name).await.map_err(failed)?;
    Response::ok(v1::DeleteBaseResponse::default())
}

/// Source of an import.
enum Origin {
    Disk(ImportSource),
    Registry(ImageReference, Option<Credentials>),
}

/// Running import. `progress` holds the latest state only, so a slow reader skips updates.
struct Import {
    progress: watch::Receiver<v1::ImportProgress>,
    work: AbortOnDropHandle<sandbar_core::Result<BaseInfo>>,
}

fn import(
    host: Arc<Host>,
    name: BaseName,
    origin: Origin,
) -> impl futures::Stream<Item = Result<v1::ImportBaseResponse, ConnectError>> + Send {
    let (report, progress) = watch::channel(v1::ImportProgress::default());
    #[expect(
        clippy::disallowed_methods,
        reason = "aborted when its owner is dropped"
    )]
    let work = tokio::spawn(async move {
        let report = move |progress: ImportProgress| {
            report.send_replace(v1::ImportProgress {
                entries: progress.entries,
                bytes: progress.bytes,
                total: progress.total,
                ..Default::default()
            });
        };
        match origin {
            Origin::Disk(source) => host.import_base(&name, &source, report).await,
            Origin::Registry(image, credentials) => {
                host.import_image(&name, &image, credentials, report).await
            }
        }
    });
    stream::unfold(
        Some(Import {
            progress,
            work: AbortOnDropHandle::new(work),
        }),
        |import| async move {
            let mut import = import?;
            // The sender is dropped when the import ends, and then the outcome is available.
            if import.progress.changed().await.is_ok() {
                let progress = import.progress.borrow_and_update().clone();
                return Some((Ok(response(progress)), Some(import)));
            }
            let outcome = match import.work.await {
                Ok(Ok(base)) => Ok(response(v1::Base::from(base))),
                Ok(Err(error)) => Err(failed(error)),
                Err(panicked) => Err(failed(import_panicked(panicked))),
            };
            Some((outcome, None))
        },
    )
}

fn import_panicked(error: JoinError) -> Error {
    Error::internal("import task panicked").with_source(error)
}

fn response(event: impl Into<v1::import_base_response::Event>) -> v1::ImportBaseResponse {
    v1::ImportBaseResponse {
        event: Some(event.into()),
        ..Default::default()
    }
}
