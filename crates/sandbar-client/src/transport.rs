//! How calls reach the host: over a connection, or without one.

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

/// What answers consist of, whichever way they come.
pub(crate) type AnswerBody = Either<Incoming, LocalBody>;

/// A way to the host. Clones share it.
#[derive(Clone)]
pub(crate) enum Transport {
    /// One HTTP/2 connection, made anew when it breaks.
    Connection(SharedHttp2Connection),
    /// The API itself, in this process.
    InProcess(BoxCloneSyncService<Request<ClientBody>, Response<LocalBody>, Infallible>),
}

impl Transport {
    pub(crate) fn in_process<S, B>(api: S) -> Self
    where
        S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let boxed = api.map_response(|answer| answer.map(|body| body.map_err(io::Error::other).boxed_unsync()));
        Self::InProcess(BoxCloneSyncService::new(boxed))
    }
}

impl ClientTransport for Transport {
    type ResponseBody = AnswerBody;
    type Error = ConnectError;

    fn send(&self, request: Request<ClientBody>) -> BoxFuture<'static, Result<Response<AnswerBody>, ConnectError>> {
        match self {
            Self::Connection(connection) => {
                let answer = connection.send(request);
                async move { Ok(answer.await?.map(Either::Left)) }.boxed()
            }
            Self::InProcess(api) => {
                let answer = api.clone().oneshot(request);
                async move {
                    let Ok(answer) = answer.await;
                    Ok(answer.map(Either::Right))
                }
                .boxed()
            }
        }
    }
}
