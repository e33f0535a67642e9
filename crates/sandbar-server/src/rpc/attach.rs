//! `AttachProcess`: input and output of long-running processes.

use std::sync::Arc;

use bytes::Bytes;
use connectrpc::{ConnectError, InboundStream, Response, ServiceResult, ServiceStream};
use futures::StreamExt as _;
use sandbar_core::{AttachEvent, Error, ErrorCode, ProcessId, Result, SessionId, TerminalSize};
use sandbar_host::{AttachedStdin, Attachment, Host};
use sandbar_proto::v1::{self, attach_process_request::Request, attach_process_response::Event};
use tokio_util::sync::CancellationToken;

use super::{
    bidi_call::{Input, Program, run_bidi_call},
    errors::{failed, failed_in, stopping},
    service::Service,
    stdin_queue::StdinSink,
};

pub(super) async fn attach_process(
    service: &Service,
    mut requests: InboundStream<v1::AttachProcessRequest>,
) -> ServiceResult<ServiceStream<v1::AttachProcessResponse>> {
    let first = requests
        .next()
        .await
        .transpose()?
        .and_then(|message| message.to_owned_message().request);
    let Some(Request::Attach(attach)) = first else {
        return Err(failed(
            Error::invalid("request", "first message is not `attach`")
                .with_hint("send `attach` with `session_id` and `process_id` first"),
        ));
    };
    let (session, process, replay) = attach.unpack().map_err(failed)?;
    let attachment = service
        .host
        .attach_process(&session, &process, replay)
        .await
        .map_err(failed_in(&session))?;
    let (host, shutdown) = (Arc::clone(&service.host), service.shutdown.clone());
    Ok(Response::new(run_bidi_call(
        Attached {
            attachment,
            session,
            process,
            host,
            shutdown,
        },
        requests,
    )))
}

/// One attachment to a process. The process keeps running when the caller disconnects.
struct Attached {
    attachment: Attachment,
    session: SessionId,
    process: ProcessId,
    host: Arc<Host>,
    shutdown: CancellationToken,
}

impl Program for Attached {
    type Request = v1::AttachProcessRequest;
    type Response = v1::AttachProcessResponse;
    type Stdin = AttachedStdin;

    const CLOSES_STDIN: bool = false;

    fn input(request: v1::AttachProcessRequest) -> Option<Input> {
        Some(match request.request? {
            Request::Attach(_) => Input::First,
            Request::Stdin(bytes) => Input::Stdin(bytes),
            Request::CloseStdin(_) => Input::CloseStdin,
            Request::Signal(signal) => Input::Signal(signal),
            Request::Resize(size) => Input::Resize(size),
        })
    }

    fn stdin(&self) -> Option<AttachedStdin> {
        self.attachment.stdin()
    }

    fn first_response(&self) -> v1::AttachProcessResponse {
        message(v1::ProcessAttached {
            process: v1::Process::from(self.attachment.process().clone()).into(),
            stdin: self.attachment.stdin().is_some(),
            terminal: self.attachment.has_terminal(),
            ..Default::default()
        })
    }

    async fn next(&mut self) -> Result<(v1::AttachProcessResponse, bool), ConnectError> {
        // An attachment may last as long as the process, so it must not delay shutdown.
        let event = tokio::select! {
            biased;
            event = self.attachment.next_event() => event,
            () = self.shutdown.cancelled() => return Err(stopping(&self.session)),
        };
        let event =
            event.ok_or_else(|| failed(Error::internal("process ended without an exit event")))?;
        let is_last = matches!(event, AttachEvent::Exited(_));
        Ok((message(event), is_last))
    }

    fn stdin_taken(bytes: u64) -> v1::AttachProcessResponse {
        message(Event::StdinTaken(bytes))
    }

    /// Goes through the host, so that the audit log records the caller.
    async fn signal(&self, signal: i32) -> Result<()> {
        match self
            .host
            .kill_process(&self.session, &self.process, signal)
            .await
        {
            // The process is between two runs, and the signal was not one that stops it.
            Err(error) if error.code() == ErrorCode::InvalidState => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    async fn resize(&self, size: TerminalSize) -> Result<()> {
        match self
            .host
            .resize_process(&self.session, &self.process, size)
            .await
        {
            // The process is between two runs. The next run gets the size of the next message.
            Err(error) if error.code() == ErrorCode::InvalidState => Ok(()),
            outcome => outcome,
        }
    }
}

impl StdinSink for AttachedStdin {
    async fn write(&self, bytes: Bytes) -> Result<()> {
        Self::write(self, bytes).await
    }

    fn close(&self) {
        Self::close(self);
    }
}

fn message(event: impl Into<Event>) -> v1::AttachProcessResponse {
    v1::AttachProcessResponse {
        event: Some(event.into()),
        ..Default::default()
    }
}
