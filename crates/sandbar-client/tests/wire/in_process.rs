//! Client of an API in the same process.

use connectrpc::{ConnectError, ConnectRpcService, RequestContext, Response, Router, handler_fn};
use http::HeaderValue;
use sandbar_client::Client;
use sandbar_core::ErrorCode;
use sandbar_proto::v1;

use crate::double::SERVICE;

/// API that checks the `authorization` header.
fn api() -> ConnectRpcService {
    let bases = handler_fn(move |context: RequestContext, _: v1::ListBasesRequest| {
        let welcome = context
            .header("authorization")
            .is_some_and(|sent| sent == "the word");
        async move {
            if welcome {
                return Response::ok(v1::ListBasesResponse::default());
            }
            Err(ConnectError::unauthenticated("say the word"))
        }
    });
    ConnectRpcService::new(Router::new().route(SERVICE, "ListBases", bases))
}

#[tokio::test]
async fn in_process_calls_carry_the_authorization_header() {
    let client = Client::in_process(api(), Some(HeaderValue::from_static("the word")));
    assert_eq!(client.list_bases().await.unwrap(), []);
    for other in [None, Some(HeaderValue::from_static("another"))] {
        let client = Client::in_process(api(), other);
        assert_eq!(
            client.list_bases().await.unwrap_err().code(),
            ErrorCode::Unauthenticated
        );
    }
}
