//! Export of spans to a collector.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, status::StatusCode},
};
use prost::Message as _;
use rustix::process::Signal;
use sandbar_testing::{
    TestServer,
    plain_http::{Answer, send},
};
use tokio::net::TcpListener;

use crate::world::options;

const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const CALLER: u64 = 0x00f0_67aa_0ba9_02b7;

type Received = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

async fn receive(
    received: Received,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.uri().path(), "/v1/traces");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    received
        .lock()
        .unwrap()
        .push(ExportTraceServiceRequest::decode(body).unwrap());
    Ok(Response::default())
}

/// Starts a collector that keeps what it is sent.
async fn collector() -> (SocketAddr, Received) {
    let received = Received::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let keep = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let keep = Arc::clone(&keep);
            let answer = service_fn(move |request| receive(Arc::clone(&keep), request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    (address, received)
}

/// Calls a method of the API as a program that is traced itself.
async fn call(server: &TestServer, method: &str, body: &str) -> Answer {
    let address: SocketAddr = server
        .url()
        .strip_prefix("http://")
        .unwrap()
        .parse()
        .unwrap();
    let token = std::fs::read_to_string(server.data_dir().join("token")).unwrap();
    let request = Request::post(format!("/sandbar.v1.SandboxService/{method}"))
        .header("host", address.to_string())
        .header("authorization", format!("Bearer {}", token.trim()))
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{TRACE:032x}-{CALLER:016x}-01"))
        .body(Full::from(body.to_owned()))
        .unwrap();
    send(address, request).await
}

fn text<'span>(attributes: &'span [KeyValue], key: &str) -> Option<&'span str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Returns the spans of the caller's trace with this name.
fn named<'span>(spans: &'span [Span], name: &str) -> Vec<&'span Span> {
    spans
        .iter()
        .filter(|span| span.name == name && span.trace_id == TRACE.to_be_bytes())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_verbs_are_exported_below_the_callers_span() {
    let (address, received) = collector().await;
    let server = TestServer::start(
        &options().variable("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")),
    );
    let calls = [
        (
            "CreateSession",
            r#"{"sessionId": "traced", "baseSnapshot": "host"}"#,
            200,
        ),
        (
            "ExecuteTool",
            r#"{"sessionId": "traced", "toolName": "bash", "toolCallId": "1", "params": {"cmd": "true"}}"#,
            200,
        ),
        ("TurnComplete", r#"{"sessionId": "traced"}"#, 200),
        (
            "RollbackSession",
            r#"{"sessionId": "traced", "snapshot": "gone"}"#,
            404,
        ),
    ];
    for (method, body, status) in calls {
        let answer = call(&server, method, body).await;
        assert_eq!(answer.status, status, "{method}: {answer:?}");
    }
    // The last spans are sent when the host stops.
    let finished = tokio::task::spawn_blocking(move || server.stop_with(Signal::TERM))
        .await
        .unwrap();
    assert!(finished.status.success(), "{finished:?}");

    let received = received.lock().unwrap();
    let resources: Vec<_> = received
        .iter()
        .flat_map(|request| &request.resource_spans)
        .collect();
    let names = resources
        .iter()
        .filter_map(|spans| text(&spans.resource.as_ref()?.attributes, "service.name"));
    assert!(names.clone().count() > 0 && names.clone().all(|name| name == "sandbar"));
    let spans: Vec<_> = resources
        .iter()
        .flat_map(|spans| &spans.scope_spans)
        .flat_map(|scope| &scope.spans)
        .collect();
    let spans: Vec<Span> = spans.into_iter().cloned().collect();
    let requests = named(&spans, "request");
    assert_eq!(requests.len(), 4, "{spans:#?}");
    assert!(
        requests
            .iter()
            .all(|request| request.parent_span_id == CALLER.to_be_bytes()),
        "{requests:#?}"
    );

    let outcomes = [
        ("create_session", "ok"),
        ("execute_tool", "ok"),
        ("turn_complete", "ok"),
        ("rollback_session", "SnapshotNotFound"),
    ];
    for (verb, outcome) in outcomes {
        let [span] = named(&spans, verb)[..] else {
            panic!("not one span `{verb}`: {spans:#?}")
        };
        assert!(
            requests
                .iter()
                .any(|request| request.span_id == span.parent_span_id),
            "{span:#?}"
        );
        assert_eq!(
            text(&span.attributes, "session"),
            Some("traced"),
            "{span:#?}"
        );
        assert_eq!(
            text(&span.attributes, "outcome"),
            Some(outcome),
            "{span:#?}"
        );
        let failed = span
            .status
            .as_ref()
            .is_some_and(|status| status.code() == StatusCode::Error);
        assert_eq!(failed, outcome != "ok", "{span:#?}");
    }
    assert_eq!(
        text(&named(&spans, "execute_tool")[0].attributes, "tool"),
        Some("bash")
    );
    assert_eq!(
        text(&named(&spans, "turn_complete")[0].attributes, "snapshot"),
        Some("turn-0001")
    );
}
