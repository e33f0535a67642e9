//! Messages as server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::stream;
use http::{HeaderName, header};
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// How long a stream may be silent. Proxies take silence for the end, and a client that vanished shows only when it is
/// written to.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Tells proxies not to hold events back.
const NO_BUFFERING: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// An answer that streams: every message that comes until `work` is done. A client that goes away ends the work.
pub(super) fn event_stream(messages: mpsc::Receiver<Value>, work: AbortOnDropHandle<()>) -> Response {
    let events = stream::unfold((messages, work), |(mut messages, work)| async move {
        let event = match timeout(KEEP_ALIVE, messages.recv()).await {
            Ok(Some(message)) => format!("event: message\ndata: {message}\n\n"),
            Ok(None) => return None,
            Err(_) => ":\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(event)), (messages, work)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store"), NO_BUFFERING];
    (headers, Body::from_stream(events)).into_response()
}
