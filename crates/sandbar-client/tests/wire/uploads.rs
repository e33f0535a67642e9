//! Uploads that fail on either side.

use std::{io, path::Path};

use connectrpc::{Response, Router, client_streaming_handler_fn};
use futures::{StreamExt as _, stream};
use sandbar_client::WireProtocol;
use sandbar_core::{Error, ErrorCode, SessionId, WriteOptions};
use sandbar_proto::{
    to_connect,
    v1::{self, write_file_request::Part},
};
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;

use crate::double::{Double, PROTOCOLS, SERVICE};

#[tokio::test]
async fn failed_source_never_completes_an_upload() {
    let (seen, mut parts) = mpsc::unbounded_channel();
    let write = client_streaming_handler_fn(
        move |_, mut requests: connectrpc::ServiceStream<v1::WriteFileRequest>| {
            let seen = seen.clone();
            async move {
                while let Some(request) = requests.next().await {
                    seen.send(request.map(|request| request.part.unwrap()))
                        .unwrap();
                }
                Response::ok(v1::WriteFileResponse::default())
            }
        },
    );
    let server =
        Double::serve(Router::new().route_client_stream(SERVICE, "WriteFile", write)).await;
    let client = server.client(WireProtocol::Connect).await;
    let source = StreamReader::new(stream::iter([
        Ok(&b"half"[..]),
        Err(io::Error::other("the disk is gone")),
    ]));
    let error = client
        .write_file(
            &SessionId::new("box").unwrap(),
            Path::new("/file"),
            WriteOptions::default(),
            source,
        )
        .await
        .unwrap_err();
    assert_eq!(error.chain(), "read the upload source: the disk is gone");
    drop((client, server));
    while let Some(part) = parts.recv().await {
        assert!(!matches!(part, Ok(Part::Finish(_))));
    }
}

#[tokio::test]
async fn error_during_an_upload_reaches_the_caller() {
    let write = client_streaming_handler_fn(
        |_, mut requests: connectrpc::ServiceStream<v1::WriteFileRequest>| async move {
            for _ in 0..3 {
                requests.next().await.unwrap().unwrap();
            }
            let error = Error::new(ErrorCode::StorageFull, "the session's quota is spent");
            Err::<Response<v1::WriteFileResponse>, _>(to_connect(&error, None))
        },
    );
    let server =
        Double::serve(Router::new().route_client_stream(SERVICE, "WriteFile", write)).await;
    for protocol in PROTOCOLS {
        let client = server.client(protocol).await;
        // The source is endless, so only the error can end the call.
        let error = client
            .write_file(
                &SessionId::new("box").unwrap(),
                Path::new("/file"),
                WriteOptions::default(),
                tokio::io::repeat(7),
            )
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (ErrorCode::StorageFull, "the session's quota is spent")
        );
    }
}
