//! Bases.

use std::sync::Arc;

use connectrpc::{ConnectError, Response, ServiceResult, ServiceStream};
use futures::stream;
use sandbar_core::{BaseInfo, BaseName, Error};
use sandbar_host::{Credentials, Host, ImageReference, ImportProgress, ImportSource};
use sandbar_proto::v1;
use tokio::{sync::watch, task::JoinError};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    failure::{failed, failed_in},
    service::Service,
};

impl Service {
    pub(crate) async fn all_bases(&self) -> ServiceResult<v1::ListBasesResponse> {
        let bases = self.host.list_bases().await.map_err(failed)?;
        Response::ok(v1::ListBasesResponse { bases: bases.into_iter().map(Into::into).collect(), ..Default::default() })
    }

    pub(crate) fn bring_base(
        &self,
        request: v1::ImportBaseRequest,
    ) -> ServiceResult<ServiceStream<v1::ImportBaseResponse>> {
        let name = BaseName::new(request.name).map_err(|error| failed(error.with_field("name")))?;
        let credentials = request.credentials.into_option();
        let credentials = credentials.map(|given| Credentials { username: given.username, password: given.password });
        if !request.image.is_empty() {
            if !request.source.is_empty() {
                let both =
                    Error::invalid("image", "both a source and an image are given").with_hint("give one of them");
                return Err(failed(both));
            }
            let image: ImageReference = request.image.parse().map_err(failed)?;
            let origin = Origin::Registry(image, credentials);
            return Ok(Response::new(Box::pin(import(self.host.clone(), name, origin))));
        }
        if credentials.is_some() {
            let error = Error::invalid("credentials", "credentials are given without an image");
            return Err(failed(error.with_hint("give an `image`, or leave the credentials out")));
        }
        if request.source != "host" && !request.source.starts_with('/') {
            return Err(failed(
                Error::invalid("source", format!("source `{}` is not an absolute path", request.source.escape_debug()))
                    .with_hint("give `host`, or a path on the host's disk that begins with `/`"),
            ));
        }
        let source = ImportSource::parse(&request.source).map_err(|error| failed(error.with_field("source")))?;
        Ok(Response::new(Box::pin(import(self.host.clone(), name, Origin::Disk(source)))))
    }

    pub(crate) async fn keep_base(&self, request: v1::SaveBaseRequest) -> ServiceResult<v1::SaveBaseResponse> {
        let (id, request) = request.unpack().map_err(failed)?;
        let base = self.host.save_base_as(&id, request).await.map_err(failed_in(&id))?;
        Response::ok(v1::SaveBaseResponse { base: v1::Base::from(base).into(), ..Default::default() })
    }

    pub(crate) async fn remove_base(&self, name: &str) -> ServiceResult<v1::DeleteBaseResponse> {
        let name = BaseName::new(name).map_err(|error| failed(error.with_field("name")))?;
        self.host.delete_base(&name).await.map_err(failed)?;
        Response::ok(v1::DeleteBaseResponse::default())
    }
}

/// Where a base comes from.
enum Origin {
    Disk(ImportSource),
    Registry(ImageReference, Option<Credentials>),
}

/// An import under way. Progress is the latest state, not a history: a slow reader skips some.
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
    let work = tokio::spawn(async move {
        let report = move |so_far: ImportProgress| {
            report.send_replace(v1::ImportProgress {
                entries: so_far.entries,
                bytes: so_far.bytes,
                total: so_far.total,
                ..Default::default()
            });
        };
        match origin {
            Origin::Disk(source) => host.import_base(&name, &source, report).await,
            Origin::Registry(image, credentials) => host.import_image(&name, &image, credentials, report).await,
        }
    });
    stream::unfold(Some(Import { progress, work: AbortOnDropHandle::new(work) }), |import| async move {
        let mut import = import?;
        // The sender goes away with the import, and then its outcome is there.
        if import.progress.changed().await.is_ok() {
            let so_far = import.progress.borrow_and_update().clone();
            return Some((Ok(answer(so_far)), Some(import)));
        }
        let outcome = match import.work.await {
            Ok(Ok(base)) => Ok(answer(v1::Base::from(base))),
            Ok(Err(error)) => Err(failed(error)),
            Err(broken) => Err(failed(import_broke(broken))),
        };
        Some((outcome, None))
    })
}

fn import_broke(error: JoinError) -> Error {
    Error::internal("the import broke off").with_source(error)
}

fn answer(event: impl Into<v1::import_base_response::Event>) -> v1::ImportBaseResponse {
    v1::ImportBaseResponse { event: Some(event.into()), ..Default::default() }
}
