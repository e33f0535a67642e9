//! Errors of the host after transport.

use connectrpc::{Response, Router, ServiceStream, handler_fn, streaming_handler_fn};
use futures::stream;
use sandbar_core::{Error, ErrorCode, SessionId, SnapshotName};
use sandbar_proto::{to_connect, v1};

use crate::double::{Double, PROTOCOLS, SERVICE};

fn raise(code: &str) -> connectrpc::ConnectError {
    let code = ErrorCode::from_name(code).unwrap();
    let error = Error::new(code, "session `box` is not what it was")
        .with_field("session_id")
        .with_hint("look at `sandbar ls`; ü and \n survive too");
    to_connect(&error, Some(&SessionId::new("box").unwrap()))
}

fn assert_restored(error: &Error, code: ErrorCode) {
    assert_eq!(error.code(), code);
    assert_eq!(error.message(), "session `box` is not what it was");
    assert_eq!(error.field(), Some("session_id"));
    assert_eq!(
        error.hint(),
        Some("look at `sandbar ls`; ü and \n survive too")
    );
}

#[tokio::test]
async fn every_error_code_survives_every_protocol() {
    let destroy = handler_fn(|_, request: v1::DestroySessionRequest| async move {
        Err::<Response<v1::DestroySessionResponse>, _>(raise(&request.session_id))
    });
    let server = Double::serve(Router::new().route(SERVICE, "DestroySession", destroy)).await;
    for protocol in PROTOCOLS {
        let client = server.client(protocol).await;
        for code in ErrorCode::ALL {
            let error = client
                .destroy_session(&SessionId::new(code.as_str()).unwrap())
                .await
                .unwrap_err();
            assert_restored(&error, code);
        }
    }
}

#[tokio::test]
async fn error_inside_a_stream_survives_every_protocol() {
    let diff = streaming_handler_fn(|_, request: v1::DiffRequest| async move {
        let answers: ServiceStream<v1::DiffResponse> = Box::pin(stream::iter([
            Ok(v1::DiffResponse::default()),
            Err(raise(&request.session_id)),
        ]));
        Ok(Response::new(answers))
    });
    let server = Double::serve(Router::new().route_server_stream(SERVICE, "Diff", diff)).await;
    let from = SnapshotName::new("clean").unwrap();
    for protocol in PROTOCOLS {
        let client = server.client(protocol).await;
        for code in ErrorCode::ALL {
            let error = client
                .diff(&SessionId::new(code.as_str()).unwrap(), &from, None)
                .await
                .unwrap_err();
            assert_restored(&error, code);
        }
    }
}
