//! MCP on a pair of streams: one message a line.

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

/// Longest line that is read: what a message to the host may have. A longer one is skipped.
const MAX_LINE_BYTES: usize = 16 << 20;

/// How long the connection may take to end once it was stopped. A client that reads nothing any more would keep it open.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// How long requests may still take once the client has closed the input: the protocol library gives them 5 seconds, and
/// the answers have to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(7);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client has closed our input: it is done.
    InputClosed,
    /// `stop` was there.
    Stopped,
}

/// Serves one client until it closes the input, or `stop` is there. Requests under way when it closes the input are
/// answered if that does not take long; otherwise they are cancelled.
pub async fn serve_stdio(
    server: McpServer,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: impl Future<Output = ()>,
) -> Result<Ended> {
    let (cancelled, closed) = (CancellationToken::new(), CancellationToken::new());
    let input = UntilClosed { input, closed: closed.clone() };
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_LINE_BYTES);
    let serving = async {
        match serve_server_with_ct(server, transport, cancelled.clone()).await {
            // How it ends is known from the streams.
            Ok(running) => running.waiting().await.map(drop).map_err(|error| broken(&error)),
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(error) => Err(broken(&error)),
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
            // What is left when this runs out is dropped.
            let _ = timeout(STOP_TIMEOUT, serving).await;
            Ok(Ended::Stopped)
        }
    }
}

fn broken(error: &impl std::error::Error) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("the client's connection failed: {error}"))
        .with_hint("a client begins with `initialize`, or speaks version 2026-07-28 in every request")
}

/// An input that tells when it has ended.
struct UntilClosed<R> {
    input: R,
    closed: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilClosed<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(context, into));
        if read.is_err() || into.filled().len() == before {
            self.closed.cancel();
        }
        Poll::Ready(read)
    }
}
