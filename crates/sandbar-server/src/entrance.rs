//! What a connection is served with: the API, or the port of a session that a request names.

use std::{convert::Infallible, sync::Arc};

use axum::{Extension, Router, body::Body};
use futures::{FutureExt as _, future::BoxFuture};
use hyper::{Request, Response, body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use sandbar_e2b::{E2b, Place, ResetOnClose, Secure};
use tracing::Instrument as _;

use crate::{access::Peer, ingress::Ingress, request_span::request_span};

/// How requests come: every one carries it among its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// Where a request can lead.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    pub(crate) api: Router,
    pub(crate) e2b: E2b,
    pub(crate) ingress: Arc<Ingress>,
}

/// The first to see a request.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    api: TowerToHyperService<Router>,
    e2b: E2b,
    ingress: Arc<Ingress>,
    peer: Peer,
    transport: Transport,
    reset: ResetOnClose,
}

impl Entrance {
    /// For one connection.
    pub(crate) fn new(doors: &Doors, peer: Peer, transport: Transport) -> Self {
        let api = TowerToHyperService::new(doors.api.clone().layer(Extension(peer)));
        Self {
            api,
            e2b: doors.e2b.clone(),
            ingress: Arc::clone(&doors.ingress),
            peer,
            transport,
            reset: ResetOnClose::default(),
        }
    }

    /// Says how the connection is closed.
    pub(crate) fn reset_on_close(&self) -> ResetOnClose {
        self.reset.clone()
    }
}

impl Service<Request<Incoming>> for Entrance {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.transport);
        request.extensions_mut().insert(Secure(self.transport == Transport::Tls));
        request.extensions_mut().insert(self.reset.clone());
        let target = self.ingress.target(&request);
        let place = match &target {
            Ok(Some(target)) => target.place(),
            Ok(None) => Place::of_path(&request),
            Err(_) => None,
        };
        match (place, target.transpose()) {
            (Some(place), _) => {
                let span = request_span(&request);
                let answer = self.e2b.clone().answer(place, request.map(Body::new), self.peer.0);
                answer.map(Ok).instrument(span).boxed()
            }
            (None, None) => {
                let span = request_span(&request);
                self.api.call(request).instrument(span).boxed()
            }
            (None, Some(target)) => {
                let answer = Arc::clone(&self.ingress).answer(target, request.map(Body::new), self.peer);
                answer.map(Ok).boxed()
            }
        }
    }
}
