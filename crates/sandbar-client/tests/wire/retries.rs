//! Retries.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use connectrpc::{ConnectError, Response, Router, handler_fn};
use sandbar_client::WireProtocol;
use sandbar_core::{ErrorCode, SessionId};
use sandbar_proto::v1;

use crate::double::{Double, SERVICE};

#[tokio::test]
async fn idempotent_call_is_retried_while_unavailable() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let bases = handler_fn(move |_, _: v1::ListBasesRequest| {
        let attempt = counter.fetch_add(1, Ordering::SeqCst);
        async move {
            if attempt < 2 {
                return Err(ConnectError::unavailable("not yet"));
            }
            Response::ok(v1::ListBasesResponse::default())
        }
    });
    let server = Double::serve(Router::new().route(SERVICE, "ListBases", bases)).await;
    let client = server.client(WireProtocol::Connect).await;
    assert_eq!(client.list_bases().await.unwrap(), []);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn call_that_is_not_idempotent_is_not_retried() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let destroy = handler_fn(move |_, _: v1::DestroySessionRequest| {
        counter.fetch_add(1, Ordering::SeqCst);
        async {
            Err::<Response<v1::DestroySessionResponse>, _>(ConnectError::unavailable("not now"))
        }
    });
    let server = Double::serve(Router::new().route(SERVICE, "DestroySession", destroy)).await;
    let client = server.client(WireProtocol::Connect).await;
    let error = client
        .destroy_session(&SessionId::new("box").unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn client_reconnects_after_a_server_restart() {
    let router = || {
        let bases = handler_fn(|_, _: v1::ListBasesRequest| async {
            Response::ok(v1::ListBasesResponse::default())
        });
        Router::new().route(SERVICE, "ListBases", bases)
    };
    let server = Double::serve(router()).await;
    let client = server.client(WireProtocol::Connect).await;
    client.list_bases().await.unwrap();
    let address = server.address().to_owned();
    server.crash().await;
    let error = client.list_bases().await.unwrap_err();
    assert_eq!(
        (error.code(), error.hint()),
        (ErrorCode::Unavailable, Some("start one with `sandbar up`"))
    );
    let _server = Double::serve_at(&address, router()).await;
    client.list_bases().await.unwrap();
}
