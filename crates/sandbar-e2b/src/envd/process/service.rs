//! The calls of `process`.

use std::{sync::Arc, time::Duration};

use connectrpc::{
    ConnectError, Encodable, InboundStream, RequestContext, Response, ServiceRequest,
    ServiceResult, ServiceStream,
};
use sandbar_core::{
    Replay, TerminalSize, WaitFor,
    signal::{SIGKILL, SIGTERM},
};
use sandbar_host::LaunchedProcess;
use sandbar_interpreter::is_interpreter;
use tokio::time::Instant;

use super::events::{Limit, Listener};
use crate::{
    auth::SessionCaller,
    envd::{Envd, env, time_limit::TimeLimit},
    generated::process::{
        CloseStdinRequest, CloseStdinResponse, ConnectRequest, ConnectResponse, ListRequest,
        ListResponse, PTY, Process, ProcessConfig, ProcessExt as _, ProcessInfo, SendInputRequest,
        SendInputResponse, SendSignalRequest, SendSignalResponse, Signal, StartRequest,
        StartResponse, StreamInputRequest, StreamInputResponse, UpdateRequest, UpdateResponse,
    },
    rest::rpc_error,
};

/// Limit for waiting until a killed command has exited, so that a listing right after the call no
/// longer contains it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Adds the service to those of envd.
pub(in crate::envd) fn register(calls: connectrpc::Router, envd: &Arc<Envd>) -> connectrpc::Router {
    Arc::new(Commands {
        envd: Arc::clone(envd),
    })
    .register(calls)
}

/// The commands of sandboxes.
struct Commands {
    envd: Arc<Envd>,
}

impl Process for Commands {
    async fn list<'a>(
        &'a self,
        context: RequestContext,
        _: ServiceRequest<'_, ListRequest>,
    ) -> ServiceResult<impl Encodable<ListResponse> + Send + use<'a>> {
        let caller = SessionCaller::of(&context)?;
        let running = self
            .envd
            .host
            .running_processes(&caller.session)
            .await
            .map_err(rpc_error)?;
        // In E2B the interpreter is a system service, not a command.
        let commands = running
            .into_iter()
            .filter(|process| !is_interpreter(&process.spec));
        let processes = commands.map(|command| described(command, caller)).collect();
        Response::ok(ListResponse {
            processes,
            ..Default::default()
        })
    }

    async fn connect(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, ConnectRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<ConnectResponse> + Send + use<>>> {
        let caller = SessionCaller::of(&context)?;
        let limit = TimeLimit::of(&context)?.and_then(|limit| Instant::now().checked_add(limit));
        let found = self
            .envd
            .find(&caller.session, request.to_owned_message().process)
            .await?;
        let id = &found.info.id;
        let attachment = self
            .envd
            .host
            .attach_lossless(&caller.session, id, Replay::None)
            .await;
        let attachment = attachment.map_err(rpc_error)?;
        let listener = Listener::new(
            &self.envd,
            &context,
            attachment,
            found.pid,
            Limit::Stream(limit),
        );
        Ok(Response::new(listener.into_stream(|event| {
            ConnectResponse {
                event: event.into(),
                ..Default::default()
            }
        })))
    }

    async fn start(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, StartRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<StartResponse> + Send + use<>>> {
        let caller = SessionCaller::of(&context)?;
        let limit = TimeLimit::of(&context)?;
        let (pid, attachment) = self
            .envd
            .start(caller, request.to_owned_message(), limit)
            .await?;
        let listener = Listener::new(&self.envd, &context, attachment, pid, Limit::Command);
        Ok(Response::new(listener.into_stream(|event| StartResponse {
            event: event.into(),
            ..Default::default()
        })))
    }

    async fn update<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, UpdateRequest>,
    ) -> ServiceResult<impl Encodable<UpdateResponse> + Send + use<'a>> {
        let caller = SessionCaller::of(&context)?;
        let UpdateRequest { process, pty, .. } = request.to_owned_message();
        let found = self.envd.find_running(&caller.session, process).await?;
        if let Some(size) = pty.into_option().map(terminal_size) {
            if found.spec.terminal.is_none() {
                return Err(ConnectError::internal(
                    "error resizing tty: tty not assigned to process",
                ));
            }
            self.envd
                .host
                .resize_process(&caller.session, &found.info.id, size)
                .await
                .map_err(rpc_error)?;
        }
        Response::ok(UpdateResponse::default())
    }

    async fn stream_input(
        &self,
        context: RequestContext,
        requests: InboundStream<StreamInputRequest>,
    ) -> ServiceResult<impl Encodable<StreamInputResponse> + Send + use<'_>> {
        self.envd
            .stream_input(&SessionCaller::of(&context)?.session, requests)
            .await?;
        Response::ok(StreamInputResponse::default())
    }

    async fn send_input<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, SendInputRequest>,
    ) -> ServiceResult<impl Encodable<SendInputResponse> + Send + use<'a>> {
        let SendInputRequest { process, input, .. } = request.to_owned_message();
        let session = &SessionCaller::of(&context)?.session;
        let found = self.envd.find_running(session, process).await?;
        self.envd
            .send_input(session, &found, input.into_option())
            .await?;
        Response::ok(SendInputResponse::default())
    }

    async fn send_signal<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, SendSignalRequest>,
    ) -> ServiceResult<impl Encodable<SendSignalResponse> + Send + use<'a>> {
        let SendSignalRequest {
            process, signal, ..
        } = request.to_owned_message();
        let (host, session) = (&self.envd.host, &SessionCaller::of(&context)?.session);
        let found = self.envd.find_running(session, process).await?;
        let signal = match signal.as_known() {
            Some(Signal::SIGNAL_SIGKILL) => SIGKILL,
            Some(Signal::SIGNAL_SIGTERM) => SIGTERM,
            _ => {
                return Err(ConnectError::unimplemented(format!(
                    "invalid signal: {signal:?}"
                )));
            }
        };
        host.kill_process(session, &found.info.id, signal)
            .await
            .map_err(rpc_error)?;
        if signal == SIGKILL {
            // It may take longer in a sandbox without CPU time; the listing is then stale, no more.
            let _ = tokio::time::timeout(
                EXIT_TIMEOUT,
                host.wait_process(session, &found.info.id, WaitFor::Exited),
            )
            .await;
        }
        Response::ok(SendSignalResponse::default())
    }

    async fn close_stdin<'a>(
        &'a self,
        context: RequestContext,
        request: ServiceRequest<'_, CloseStdinRequest>,
    ) -> ServiceResult<impl Encodable<CloseStdinResponse> + Send + use<'a>> {
        let session = &SessionCaller::of(&context)?.session;
        let found = self
            .envd
            .find_running(session, request.to_owned_message().process)
            .await?;
        self.envd.close_stdin(session, &found).await?;
        Response::ok(CloseStdinResponse::default())
    }
}

/// Returns a command as an element of a listing.
fn described(
    LaunchedProcess { pid, mut spec, .. }: LaunchedProcess,
    caller: &SessionCaller,
) -> ProcessInfo {
    env::remove(&mut spec.env, caller);
    let mut argv = spec.argv.into_iter();
    let config = ProcessConfig {
        cmd: argv.next().unwrap_or_default(),
        args: argv.collect(),
        envs: spec.env,
        cwd: spec.cwd,
        ..Default::default()
    };
    ProcessInfo {
        config: config.into(),
        pid,
        tag: spec.tag,
        ..Default::default()
    }
}

/// Converts a terminal size; values out of range are clamped.
pub(super) fn terminal_size(terminal: PTY) -> TerminalSize {
    let size = terminal.size.into_option().unwrap_or_default();
    let fit = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    TerminalSize {
        rows: fit(size.rows),
        columns: fit(size.cols),
    }
}
