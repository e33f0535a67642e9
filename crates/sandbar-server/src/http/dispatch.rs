//! Dispatch of requests to the API, the E2B surface, or the port of a session.

use std::{convert::Infallible, sync::Arc};

use axum::{Extension, Router, body::Body};
use futures::{FutureExt as _, future::BoxFuture};
use hyper::{Request, Response, body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use sandbar_e2b::{E2b, ResetOnClose, Route, Secure};
use tracing::Instrument as _;

use super::{connections::Registration, request_span::request_span};
use crate::{
    access::{CallSlot, ConcurrencyLimit, Peer},
    ingress::Ingress,
};

/// Transport of a connection, in the extensions of each of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// Services that requests are dispatched to.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub(crate) api: Router,
    pub(crate) e2b: E2b,
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) concurrency: ConcurrencyLimit,
}

/// Dispatcher of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    api: TowerToHyperService<Router>,
    e2b: E2b,
    ingress: Arc<Ingress>,
    peer: Peer,
    transport: Transport,
    concurrency: ConcurrencyLimit,
    connection: Arc<Registration>,
    reset: ResetOnClose,
}

impl Dispatch {
    pub(crate) fn new(
        services: &Services,
        peer: Peer,
        transport: Transport,
        connection: Arc<Registration>,
    ) -> Self {
        let api = TowerToHyperService::new(services.api.clone().layer(Extension(peer)));
        Self {
            api,
            e2b: services.e2b.clone(),
            ingress: Arc::clone(&services.ingress),
            peer,
            transport,
            concurrency: services.concurrency.clone(),
            connection,
            reset: ResetOnClose::default(),
        }
    }

    /// Returns the flag that makes the connection close with a TCP reset.
    pub(crate) fn reset_on_close(&self) -> ResetOnClose {
        self.reset.clone()
    }
}

impl Service<Request<Incoming>> for Dispatch {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.transport);
        request
            .extensions_mut()
            .insert(Secure(self.transport == Transport::Tls));
        request.extensions_mut().insert(self.reset.clone());
        let slot = CallSlot::open(self.concurrency.clone(), &self.connection);
        request.extensions_mut().insert(slot.clone());
        let call = slot.guard();
        let target = self.ingress.target(&request);
        let route = match &target {
            Ok(Some(target)) => target.e2b_route(),
            Ok(None) => Route::of_path(&request),
            Err(_) => None,
        };
        let answer: BoxFuture<'static, _> = match (route, target.transpose()) {
            (Some(route), _) => {
                let span = request_span(&request);
                let peer = sandbar_e2b::Peer {
                    address: self.peer.0,
                    slot: Arc::new(slot),
                };
                let answer = self.e2b.clone().answer(route, request.map(Body::new), peer);
                answer.map(Ok).instrument(span).boxed()
            }
            (None, None) => {
                let span = request_span(&request);
                self.api.call(request).instrument(span).boxed()
            }
            (None, Some(target)) => {
                let answer =
                    Arc::clone(&self.ingress).answer(target, request.map(Body::new), self.peer);
                answer.map(Ok).boxed()
            }
        };
        // Dropping the future ends the call as well.
        async move {
            let response = answer.await?;
            Ok(response.map(|body| call.hold_for(body)))
        }
        .boxed()
    }
}
