//! Transport of calls: an HTTP/2 connection, or the API in this process.

use std::{convert::Infallible, io};

use bytes::Bytes;
use connectrpc::{
    ConnectError,
    client::{BoxFuture, ClientBody, ClientTransport, SharedHttp2Connection},
};
use futures::FutureExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Either, combinators::UnsyncBoxBody};
use hyper::body::{Body, Incoming};
use tower::{Service, ServiceExt as _, util::BoxCloneSyncService};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

type LocalBody = UnsyncBoxBody<Bytes, io::Error>;

/// Response body of either transport.
pub(crate) type ResponseBody = Either<Incoming, LocalBody>;

/// Transport to a host. Clones share it.
#[derive(Clone)]
pub(crate) enum Transport {
    /// One HTTP/2 connection, re-established when it breaks.
    Connection(SharedHttp2Connection),
    /// The API itself, in this process.
    InProcess(BoxCloneSyncService<Request<ClientBody>, Response<LocalBody>, Infallible>),
}

impl Transport {
    pub(crate) fn in_process<S, B>(api: S) -> Self
    where
        S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let boxed = api.map_response(|response| {
            response.map(|body| body.map_err(io::Error::other).boxed_unsync())
        });
        Self::InProcess(BoxCloneSyncService::new(boxed))
    }
}

impl ClientTransport for Transport {
    type ResponseBody = ResponseBody;
    type Error = ConnectError;

    fn send(
        &self,
        request: Request<ClientBody>,
    ) -> BoxFuture<'static, Result<Response<ResponseBody>, ConnectError>> {
        match self {
            Self::Connection(connection) => {
                let response = connection.send(request);
                async move { Ok(response.await?.map(Either::Left)) }.boxed()
            }
            Self::InProcess(api) => {
                let response = api.clone().oneshot(request);
                async move {
                    let Ok(response) = response.await;
                    Ok(response.map(Either::Right))
                }
                .boxed()
            }
        }
    }
}
