//! MCP over stdio: one message a line.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use rmcp::{
    service::{ServerInitializeError, serve_server_with_ct},
    transport::async_rw::AsyncRwTransport,
};
use sandbar_core::{Error, ErrorCode, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::server::McpServer;

/// Longest line accepted, the same as the message limit of the host. A longer line is skipped.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Time to end after `stop`. A client that does not read would otherwise keep the connection open.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for running requests after the client has closed the input: `rmcp` gives them 5 seconds,
/// and the responses have to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(7);

/// Reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client has closed the input.
    InputClosed,
    /// `stop` has resolved.
    Stopped,
}

/// Serves one client until it closes the input or `stop` resolves. Requests that run when the input
/// is closed have a few seconds to complete, and are cancelled then.
pub async fn serve_stdio(
    server: McpServer,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: impl Future<Output = ()>,
) -> Result<Ended> {
    let (cancelled, closed) = (CancellationToken::new(), CancellationToken::new());
    let input = UntilClosed {
        input,
        closed: closed.clone(),
    };
    let transport =
        AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_LINE_BYTES);
    let serving = async {
        match serve_server_with_ct(server, transport, cancelled.clone()).await {
            // `UntilClosed` reports how it ended.
            Ok(running) => running
                .waiting()
                .await
                .map(drop)
                .map_err(|error| connection_failed(&error)),
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                Ok(())
            }
            Err(error) => Err(connection_failed(&error)),
        }
    };
    tokio::pin!(serving, stop);
    let closing = async {
        closed.cancelled().await;
        sleep(CLOSE_TIMEOUT).await;
    };
    tokio::select! {
        outcome = &mut serving => outcome.map(|()| Ended::InputClosed),
        () = closing => Ok(Ended::InputClosed),
        () = &mut stop => {
            cancelled.cancel();
            // At the timeout the remaining requests are dropped.
            let _ = timeout(STOP_TIMEOUT, serving).await;
            Ok(Ended::Stopped)
        }
    }
}

fn connection_failed(error: &impl std::error::Error) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("MCP connection failed: {error}"),
    )
    .with_hint("a client must begin with `initialize`, or send version 2026-07-28 in every request")
}

/// Input that cancels `closed` at its end.
struct UntilClosed<R> {
    input: R,
    closed: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilClosed<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(context, into));
        if read.is_err() || into.filled().len() == before {
            self.closed.cancel();
        }
        Poll::Ready(read)
    }
}
