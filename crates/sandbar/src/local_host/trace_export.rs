//! Export of spans by OTLP over HTTP, if the environment names a collector.

use opentelemetry::{global, trace::TracerProvider as _};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    runtime::Tokio,
    trace::{SdkTracerProvider, span_processor_with_async_runtime::BatchSpanProcessor},
};
use sandbar_core::Error;
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use crate::{
    env_vars,
    failure::{Failure, Outcome},
    local_host::logging::variable,
};

/// Crates whose spans are exported: requests, and the verbs that they lead to.
const TARGETS: [&str; 2] = ["sandbar_host", "sandbar_server"];

/// Exporter of this process.
#[derive(Debug)]
pub(crate) struct TraceExport {
    provider: SdkTracerProvider,
}

impl TraceExport {
    /// Returns the exporter that the environment asks for. Call it in the context of the async
    /// runtime, which sends the spans.
    pub(crate) fn from_environment() -> Outcome<Option<Self>> {
        if variable(env_vars::OTLP_ENDPOINT)
            .or_else(|| variable(env_vars::OTLP_TRACES_ENDPOINT))
            .is_none()
        {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().build().map_err(|error| {
            Failure::Usage(
                Error::invalid(env_vars::OTLP_ENDPOINT, format!("span exporter is not usable: {error}")).with_hint(
                    "use the URL of a collector that speaks OTLP over HTTP, such as `http://127.0.0.1:4318`",
                ),
            )
        })?;
        let processor = BatchSpanProcessor::builder(exporter, Tokio).build();
        let resource = Resource::builder();
        let resource = match variable(env_vars::OTEL_SERVICE_NAME) {
            Some(_) => resource,
            None => resource.with_service_name("sandbar"),
        };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource.build())
            .build();
        // The server reads the caller's `traceparent` with it.
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Some(Self { provider }))
    }

    /// Returns the layer that turns spans of `tracing` into spans of OpenTelemetry.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_location(false)
            .with_threads(false)
            .with_tracer(self.provider.tracer("sandbar"))
            .with_filter(Targets::new().with_targets(TARGETS.map(|target| (target, Level::DEBUG))))
    }

    /// Sends the spans that are left. Call it while the async runtime still runs.
    pub(crate) fn finish(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "last spans not exported");
        }
    }
}
