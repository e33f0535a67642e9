//! Commands with a terminal, and lost hosts.

use connectrpc::{Response, Router, ServiceStream, bidi_streaming_handler_fn};
use futures::{StreamExt as _, stream};
use sandbar_core::{ErrorCode, ExecEvent, ExecSpec, ExitStatus, SessionId, TerminalSize};
use sandbar_proto::v1::{self, ExecResponse, exec_request::Request, exec_response::Event};

use crate::double::{Double, PROTOCOLS, SERVICE};

/// Echoes each terminal size, and exits as if out of memory at size 1×1.
fn answer(request: Request) -> Event {
    let told =
        |size: v1::TerminalSize| Event::Stdout(format!("{}x{}", size.rows, size.columns).into());
    match request {
        Request::Start(_) => v1::ExecStarted {
            pid: 7,
            ..Default::default()
        }
        .into(),
        Request::Resize(size) if size.rows == 1 => v1::ExecExited {
            signal: Some(9),
            oom_killed: true,
            ..Default::default()
        }
        .into(),
        Request::Resize(size) => told(*size),
        other => panic!("not expected here: {other:?}"),
    }
}

/// Host that responds with [`answer`], and never ends a call by itself.
async fn host() -> Double {
    let exec =
        bidi_streaming_handler_fn(|_, requests: ServiceStream<v1::ExecRequest>| async move {
            let answers = requests.map(|request| {
                let event = answer(request?.request.unwrap());
                Ok(ExecResponse {
                    event: Some(event),
                    ..Default::default()
                })
            });
            Response::ok(Box::pin(answers.chain(stream::pending())) as ServiceStream<ExecResponse>)
        });
    Double::serve(Router::new().route_bidi_stream(SERVICE, "Exec", exec)).await
}

#[tokio::test]
async fn resizes_arrive_in_order_and_out_of_memory_is_reported() {
    let server = host().await;
    for protocol in PROTOCOLS {
        let client = server.client(protocol).await;
        let size = |rows, columns| TerminalSize { rows, columns };
        let spec = ExecSpec {
            terminal: Some(size(24, 80)),
            ..ExecSpec::new(["vi"])
        };
        let mut command = client
            .exec(&SessionId::new("box").unwrap(), spec)
            .await
            .unwrap();
        command.resize(size(50, 132)).await.unwrap();
        command.control().resize(size(9, 10)).await.unwrap();
        for told in ["50x132", "9x10"] {
            assert_eq!(
                command.next_event().await.unwrap(),
                Some(ExecEvent::Stdout(told.into())),
                "{protocol:?}"
            );
        }
        command.resize(size(1, 1)).await.unwrap();
        let ended = ExitStatus {
            signal: Some(9),
            oom_killed: true,
            ..ExitStatus::default()
        };
        assert_eq!(
            command.next_event().await.unwrap(),
            Some(ExecEvent::Exited(ended))
        );
    }
}

#[tokio::test]
async fn lost_host_during_a_command_is_unavailable() {
    for protocol in PROTOCOLS {
        let server = host().await;
        let client = server.client(protocol).await;
        let mut command = client
            .exec(&SessionId::new("box").unwrap(), ExecSpec::new(["sleep"]))
            .await
            .unwrap();
        server.crash().await;
        let error = command.next_event().await.unwrap_err();
        assert_eq!(
            error.code(),
            ErrorCode::Unavailable,
            "{protocol:?}: {}",
            error.chain()
        );
        assert!(
            error
                .message()
                .contains("went away before the command had ended"),
            "{error}"
        );
        assert!(error.hint().is_some());
    }
}
