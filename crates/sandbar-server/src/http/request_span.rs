//! Tracing span of a request, child of the span in its `traceparent` header (W3C Trace Context).

use hyper::{HeaderMap, Request, header::HeaderName};
use opentelemetry::{global, propagation::Extractor};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Opens the span of a request. Host operations that the request causes are its children.
pub(crate) fn request_span<B>(request: &Request<B>) -> Span {
    let (method, path) = (request.method().as_str(), request.uri().path());
    let span = tracing::debug_span!(
        "request",
        otel.kind = "server",
        http.request.method = method,
        url.path = path
    );
    if !span.is_disabled() {
        let caller = global::get_text_map_propagator(|propagator| {
            propagator.extract(&Headers(request.headers()))
        });
        // Fails when no OpenTelemetry layer is installed, and then there is nothing to export.
        let _ = span.set_parent(caller);
    }
    span
}

/// Adapter from headers to a propagator.
struct Headers<'request>(&'request HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}
