//! `Exec`: commands bound to their call.

use bytes::Bytes;
use connectrpc::{ConnectError, InboundStream, Response, ServiceResult, ServiceStream};
use futures::StreamExt as _;
use sandbar_core::{Error, ExecEvent, Result, TerminalSize};
use sandbar_host::{RunningCommand, StdinHandle};
use sandbar_proto::v1::{self, exec_request::Request, exec_response::Event};

use super::{
    bidi_call::{Input, Program, run_bidi_call},
    errors::{failed, failed_in},
    service::Service,
    stdin_queue::StdinSink,
};

pub(super) async fn exec(
    service: &Service,
    mut requests: InboundStream<v1::ExecRequest>,
) -> ServiceResult<ServiceStream<v1::ExecResponse>> {
    let first = requests
        .next()
        .await
        .transpose()?
        .and_then(|message| message.to_owned_message().request);
    let Some(Request::Start(start)) = first else {
        return Err(failed(
            Error::invalid("request", "first message is not `start`")
                .with_hint("send `start` with `session_id` and `argv` first"),
        ));
    };
    let (id, spec) = start.unpack().map_err(failed)?;
    let command = service.host.exec(&id, spec).await.map_err(failed_in(&id))?;
    Ok(Response::new(run_bidi_call(command, requests)))
}

/// A command is bound to its call: it is killed when the caller disconnects.
impl Program for RunningCommand {
    type Request = v1::ExecRequest;
    type Response = v1::ExecResponse;
    type Stdin = StdinHandle;

    const CLOSES_STDIN: bool = true;

    fn input(request: v1::ExecRequest) -> Option<Input> {
        Some(match request.request? {
            Request::Start(_) => Input::First,
            Request::Stdin(bytes) => Input::Stdin(bytes),
            Request::CloseStdin(_) => Input::CloseStdin,
            Request::Signal(signal) => Input::Signal(signal),
            Request::Resize(size) => Input::Resize(size),
        })
    }

    fn stdin(&self) -> Option<StdinHandle> {
        Self::stdin(self)
    }

    fn first_response(&self) -> v1::ExecResponse {
        message(v1::ExecStarted {
            pid: self.pid,
            ..Default::default()
        })
    }

    async fn next(&mut self) -> Result<(v1::ExecResponse, bool), ConnectError> {
        let event = self
            .next_event()
            .await
            .ok_or_else(|| failed(Error::internal("command ended without an exit event")))?;
        let is_last = matches!(event, ExecEvent::Exited(_));
        Ok((pack(event), is_last))
    }

    fn stdin_taken(bytes: u64) -> v1::ExecResponse {
        message(Event::StdinTaken(bytes))
    }

    async fn signal(&self, signal: i32) -> Result<()> {
        // Fails only when the command has just exited, and the exit event follows.
        let _ = Self::signal(self, signal);
        Ok(())
    }

    async fn resize(&self, size: TerminalSize) -> Result<()> {
        Self::resize(self, size)
    }
}

impl StdinSink for StdinHandle {
    async fn write(&self, bytes: Bytes) -> Result<()> {
        Self::write(self, bytes).await
    }

    fn close(&self) {
        Self::close(self);
    }
}

fn pack(event: ExecEvent) -> v1::ExecResponse {
    match event {
        ExecEvent::Stdout(bytes) => message(Event::Stdout(bytes)),
        ExecEvent::Stderr(bytes) => message(Event::Stderr(bytes)),
        ExecEvent::Exited(status) => message(v1::ExecExited::from(status)),
    }
}

fn message(event: impl Into<Event>) -> v1::ExecResponse {
    v1::ExecResponse {
        event: Some(event.into()),
        ..Default::default()
    }
}
