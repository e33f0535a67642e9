//! `process` over Connect: commands, by process id or tag. One file a thing that is done with them.

mod end_event;
mod input;
mod listen;
mod selector;
mod start;

use std::{sync::Arc, time::Duration};

use connectrpc::{
    ConnectError, Encodable, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use sandbar_core::{Replay, TerminalSize, WaitFor};
use sandbar_host::LaunchedProcess;
use tokio::time::Instant;

use self::listen::{Limit, Listener};
use super::{time_limit::TimeLimit, told};
use crate::{
    answer::rpc_error,
    generated::process::{
        CloseStdinRequest, CloseStdinResponse, ConnectRequest, ConnectResponse, ListRequest, ListResponse, PTY,
        Process, ProcessConfig, ProcessExt as _, ProcessInfo, SendInputRequest, SendInputResponse, SendSignalRequest,
        SendSignalResponse, Signal, StartRequest, StartResponse, StreamInputRequest, StreamInputResponse,
        UpdateRequest, UpdateResponse,
    },
    interpreter::is_interpreter,
    surface::Surface,
    visitor::Visitor,
};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// How long the end of a command that was killed is waited for, so that whoever looks next does not find it.
const DEATH: Duration = Duration::from_secs(2);

/// Adds the service to those of envd.
pub(super) fn register(calls: connectrpc::Router, surface: &Arc<Surface>) -> connectrpc::Router {
    Arc::new(Commands { surface: Arc::clone(surface) }).register(calls)
}

/// The commands of sandboxes.
struct Commands {
    surface: Arc<Surface>,
}

impl Process for Commands {
    async fn list<'a>(
        &'a self,
        context: RequestContext,
        _: ServiceRequest<'_, ListRequest>,
    ) -> ServiceResult<impl Encodable<ListResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let running = self.surface.host.running_processes(&visitor.session).await.map_err(rpc_error)?;
        // E2B has its interpreter among the services of the machine, not among commands.
        let commands = running.into_iter().filter(|process| !is_interpreter(&process.spec));
        let processes = commands.map(|command| described(command, visitor)).collect();
        Response::ok(ListResponse { processes, ..Default::default() })
    }

    async fn connect(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, ConnectRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<ConnectResponse> + Send + use<>>> {
        let visitor = Visitor::of(&context)?;
        let limit = TimeLimit::of(&context)?.and_then(|limit| Instant::now().checked_add(limit));
        let found = self.surface.find(&visitor.session, request.to_owned_message().process).await?;
        let id = &found.info.id;
        let attachment = self.surface.host.attach_closely(&visitor.session, id, Replay::None).await;
        let attachment = attachment.map_err(rpc_error)?;
        let listener = Listener::new(&self.surface, &context, attachment, found.pid, Limit::OfListener(limit));
        Ok(Response::new(listener.into_stream(|event| ConnectResponse { event: event.into(), ..Default::default() })))
    }

    async fn start(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, StartRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<StartResponse> + Send + use<>>> {
        let visitor = Visitor::of(&context)?;
        let limit = TimeLimit::of(&context)?;
        let (pid, attachment) = self.surface.start(visitor, request.to_owned_message(), limit).await?;
        let listener = Listener::new(&self.surface, &context, attachment, pid, Limit::OfCommand);
        Ok(Response::new(listener.into_stream(|event| StartResponse { event: event.into(), ..Default::default() })))
    }

    async fn update<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, UpdateRequest>,
    ) -> ServiceResult<impl Encodable<UpdateResponse> + Send + use<'a>> {
        let visitor = Visitor::of(&context)?;
        let UpdateRequest { process, pty, .. } = request.to_owned_message();
        let found = self.surface.find_running(&visitor.session, process).await?;
        if let Some(size) = pty.into_option().map(terminal_size) {
            if found.spec.terminal.is_none() {
                return Err(ConnectError::internal("error resizing tty: tty not assigned to process"));
            }
            self.surface.host.resize_process(&visitor.session, &found.info.id, size).await.map_err(rpc_error)?;
        }
        Response::ok(UpdateResponse::default())
    }

    async fn stream_input(
        &self,
        context: RequestContext,
        requests: InboundStream<StreamInputRequest>,
    ) -> ServiceResult<impl Encodable<StreamInputResponse> + Send + use<'_>> {
        self.surface.take_input(&Visitor::of(&context)?.session, requests).await?;
        Response::ok(StreamInputResponse::default())
    }

    async fn send_input<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, SendInputRequest>,
    ) -> ServiceResult<impl Encodable<SendInputResponse> + Send + use<'a>> {
        let SendInputRequest { process, input, .. } = request.to_owned_message();
        let session = &Visitor::of(&context)?.session;
        let found = self.surface.find_running(session, process).await?;
        self.surface.send_input(session, &found, input.into_option()).await?;
        Response::ok(SendInputResponse::default())
    }

    async fn send_signal<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, SendSignalRequest>,
    ) -> ServiceResult<impl Encodable<SendSignalResponse> + Send + use<'a>> {
        let SendSignalRequest { process, signal, .. } = request.to_owned_message();
        let (host, session) = (&self.surface.host, &Visitor::of(&context)?.session);
        let found = self.surface.find_running(session, process).await?;
        let signal = match signal.as_known() {
            Some(Signal::SIGNAL_SIGKILL) => SIGKILL,
            Some(Signal::SIGNAL_SIGTERM) => SIGTERM,
            _ => return Err(ConnectError::unimplemented(format!("invalid signal: {signal:?}"))),
        };
        host.kill_process(session, &found.info.id, signal).await.map_err(rpc_error)?;
        if signal == SIGKILL {
            // Nothing is lost when it takes longer, as it may in a sandbox that is short of processor time.
            let _ = tokio::time::timeout(DEATH, host.wait_process(session, &found.info.id, WaitFor::Exited)).await;
        }
        Response::ok(SendSignalResponse::default())
    }

    async fn close_stdin<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, CloseStdinRequest>,
    ) -> ServiceResult<impl Encodable<CloseStdinResponse> + Send + use<'a>> {
        let session = &Visitor::of(&context)?.session;
        let found = self.surface.find_running(session, request.to_owned_message().process).await?;
        self.surface.close_stdin(session, &found).await?;
        Response::ok(CloseStdinResponse::default())
    }
}

/// A command as it is listed.
fn described(LaunchedProcess { pid, mut spec, .. }: LaunchedProcess, visitor: &Visitor) -> ProcessInfo {
    told::forget(&mut spec.env, visitor);
    let mut argv = spec.argv.into_iter();
    let config = ProcessConfig {
        cmd: argv.next().unwrap_or_default(),
        args: argv.collect(),
        envs: spec.env,
        cwd: spec.cwd,
        ..Default::default()
    };
    ProcessInfo { config: config.into(), pid, tag: spec.tag, ..Default::default() }
}

/// Sizes beyond what a terminal can have are the largest it can.
fn terminal_size(terminal: PTY) -> TerminalSize {
    let size = terminal.size.into_option().unwrap_or_default();
    let fit = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    TerminalSize { rows: fit(size.rows), columns: fit(size.cols) }
}
