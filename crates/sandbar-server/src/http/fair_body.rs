//! Response bodies that take turns.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes, HttpBody};
use connectrpc::http_body::{Frame, SizeHint};
use futures::future::{MapOk, TryFutureExt as _};
use hyper::{Request, Response, body::Incoming, service::Service};

/// Bytes of a body after which other tasks run.
const MAX_BYTES_PER_TURN: usize = 64 * 1024;

/// Response body that yields to other tasks after [`MAX_BYTES_PER_TURN`].
///
/// Messages are encoded in the task of their connection. hyper takes up to 400 KiB from a body
/// before it writes, and Tokio's budget counts operations, not bytes. With a hundred streams that
/// their clients do not read, every other call would wait for a hundred such turns.
#[derive(Debug)]
pub(super) struct FairBody {
    body: Body,
    taken: usize,
}

impl HttpBody for FairBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.taken >= MAX_BYTES_PER_TURN {
            self.taken = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.taken += frame.data_ref().map_or(0, Bytes::len);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Service whose response bodies are [`FairBody`].
#[derive(Clone, Debug)]
pub(super) struct InTurns<S>(pub(super) S);

impl<S> Service<Request<Incoming>> for InTurns<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>>,
{
    type Response = Response<FairBody>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<Body>) -> Response<FairBody>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.0
            .call(request)
            .map_ok(|response| response.map(|body| FairBody { body, taken: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};

    use super::*;

    #[test]
    fn body_yields_after_the_bytes_of_a_turn() {
        let chunk = Bytes::from(vec![0; MAX_BYTES_PER_TURN / 2]);
        let chunks = stream::iter(vec![chunk; 4]).map(Ok::<_, std::io::Error>);
        let mut body = FairBody {
            body: Body::from_stream(chunks),
            taken: 0,
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut turns = Vec::new();
        loop {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Pending => turns.push("yields"),
                Poll::Ready(Some(Ok(_))) => turns.push("chunk"),
                Poll::Ready(_) => break,
            }
        }
        assert_eq!(
            turns,
            ["chunk", "chunk", "yields", "chunk", "chunk", "yields"]
        );
    }
}
