//! What a connection is served with: the API, or the port of a session that a request names.

use std::{convert::Infallible, sync::Arc};

use axum::{Extension, Router, body::Body};
use futures::{FutureExt as _, future::BoxFuture};
use hyper::{Request, Response, body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;

use crate::{access::Peer, ingress::Ingress};

/// How requests come: every one carries it among its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// The first to see a request.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    api: TowerToHyperService<Router>,
    ingress: Arc<Ingress>,
    peer: Peer,
    transport: Transport,
}

impl Entrance {
    /// For one connection.
    pub(crate) fn new(api: &Router, ingress: &Arc<Ingress>, peer: Peer, transport: Transport) -> Self {
        let api = TowerToHyperService::new(api.clone().layer(Extension(peer)));
        Self { api, ingress: Arc::clone(ingress), peer, transport }
    }
}

impl Service<Request<Incoming>> for Entrance {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.transport);
        match self.ingress.target(&request).transpose() {
            None => self.api.call(request).boxed(),
            Some(target) => {
                let answer = Arc::clone(&self.ingress).answer(target, request.map(Body::new), self.peer);
                answer.map(Ok).boxed()
            }
        }
    }
}
