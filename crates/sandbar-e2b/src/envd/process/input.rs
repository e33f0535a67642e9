//! Input of a command.

use bytes::Bytes;
use connectrpc::{ConnectError, InboundStream};
use futures::StreamExt as _;
use sandbar_core::{Error, ErrorCode, Replay, SessionId, StdinMode};
use sandbar_host::{AttachedStdin, LaunchedProcess};

use crate::{
    envd::Envd,
    generated::process::{
        __buffa::oneof::{process_input::Input, stream_input_request::Event},
        ProcessInput, StreamInputRequest,
    },
    rest::rpc_error,
};

const USE_PTY: &str = "tty assigned to process — input should be written to the pty, not the stdin";
const NO_PTY: &str =
    "tty not assigned to process — input should be written to the stdin, not the tty";
const NO_STDIN: &str = "stdin not enabled or closed";
const PTY_STAYS_OPEN: &str = "cannot close stdin for PTY process — send Ctrl+D (0x04) instead";

impl Envd {
    /// Writes one chunk of input to a command.
    pub(super) async fn send_input(
        &self,
        session: &SessionId,
        process: &LaunchedProcess,
        input: Option<ProcessInput>,
    ) -> Result<(), ConnectError> {
        let (bytes, what) = check_kind(process, input)?;
        let written = self
            .host
            .write_process_stdin(session, &process.info.id, bytes)
            .await;
        written.map_err(|error| write_error(error, what))
    }

    /// Writes a stream of input to a command, with its back-pressure.
    pub(super) async fn stream_input(
        &self,
        session: &SessionId,
        mut requests: InboundStream<StreamInputRequest>,
    ) -> Result<(), ConnectError> {
        let mut target: Option<(LaunchedProcess, Option<AttachedStdin>)> = None;
        while let Some(request) = requests.next().await {
            let request = request.map_err(|error| {
                let why = error.message.unwrap_or_default();
                ConnectError::new(
                    connectrpc::ErrorCode::Unknown,
                    format!("error streaming input: {why}"),
                )
            })?;
            match request.to_owned_message().event {
                Some(Event::Start(start)) => {
                    let process = self.find_running(session, start.process).await?;
                    let attachment = self
                        .host
                        .attach_process(session, &process.info.id, Replay::None)
                        .await;
                    let stdin = attachment.map_err(rpc_error)?.stdin();
                    target = Some((process, stdin));
                }
                Some(Event::Data(data)) => {
                    let (process, stdin) = target.as_ref().ok_or_else(|| {
                        ConnectError::invalid_argument("input received before `start`")
                    })?;
                    let (bytes, what) = check_kind(process, data.input.into_option())?;
                    let stdin = stdin
                        .as_ref()
                        .ok_or_else(|| cannot(&format!("writing to {what}"), NO_STDIN))?;
                    stdin
                        .write(bytes)
                        .await
                        .map_err(|error| write_error(error, what))?;
                }
                Some(Event::Keepalive(_)) => {}
                None => return Err(ConnectError::unimplemented("invalid event type")),
            }
        }
        Ok(())
    }

    /// Closes the input of a command; does nothing if it has none or it is closed.
    pub(super) async fn close_stdin(
        &self,
        session: &SessionId,
        process: &LaunchedProcess,
    ) -> Result<(), ConnectError> {
        if process.spec.terminal.is_some() {
            return Err(cannot("closing stdin", PTY_STAYS_OPEN));
        }
        match self
            .host
            .close_process_stdin(session, &process.info.id)
            .await
        {
            Err(error) if error.code() == ErrorCode::InvalidState => Ok(()),
            outcome => outcome.map_err(rpc_error),
        }
    }
}

/// Returns the bytes and the name of their destination, if the command accepts this kind of input.
fn check_kind(
    process: &LaunchedProcess,
    input: Option<ProcessInput>,
) -> Result<(Bytes, &'static str), ConnectError> {
    let has_terminal = process.spec.terminal.is_some();
    match input.and_then(|input| input.input) {
        Some(Input::Pty(bytes)) if has_terminal => Ok((bytes, "tty")),
        Some(Input::Pty(_)) => Err(cannot("writing to tty", NO_PTY)),
        Some(Input::Stdin(_)) if has_terminal => Err(cannot("writing to stdin", USE_PTY)),
        Some(Input::Stdin(_)) if process.spec.stdin == StdinMode::Null => {
            Err(cannot("writing to stdin", NO_STDIN))
        }
        Some(Input::Stdin(bytes)) => Ok((bytes, "stdin")),
        None => Err(ConnectError::unimplemented("invalid input type")),
    }
}

fn cannot(what: &str, why: &str) -> ConnectError {
    ConnectError::failed_precondition(format!("error {what}: {why}"))
}

fn write_error(error: Error, what: &str) -> ConnectError {
    match error.code() {
        ErrorCode::InvalidState => cannot(&format!("writing to {what}"), NO_STDIN),
        _ => rpc_error(error),
    }
}
