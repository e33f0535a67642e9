//! What is typed to a command.

use bytes::Bytes;
use connectrpc::{ConnectError, InboundStream};
use futures::StreamExt as _;
use sandbar_core::{Error, ErrorCode, Replay, SessionId, StdinMode};
use sandbar_host::{AttachedStdin, LaunchedProcess};

use crate::{
    answer::rpc_error,
    generated::process::{
        __buffa::oneof::{process_input::Input, stream_input_request::Event},
        ProcessInput, StreamInputRequest,
    },
    surface::Surface,
};

const ON_TERMINAL: &str = "tty assigned to process — input should be written to the pty, not the stdin";
const NO_TERMINAL: &str = "tty not assigned to process — input should be written to the stdin, not the tty";
const NO_STDIN: &str = "stdin not enabled or closed";
const NO_CLOSING: &str = "cannot close stdin for PTY process — send Ctrl+D (0x04) instead";

impl Surface {
    /// Hands one piece of input to a command.
    pub(super) async fn send_input(
        &self,
        session: &SessionId,
        process: &LaunchedProcess,
        input: Option<ProcessInput>,
    ) -> Result<(), ConnectError> {
        let (bytes, what) = fitting(process, input)?;
        let written = self.host.write_process_stdin(session, &process.info.id, bytes).await;
        written.map_err(|error| refused(error, what))
    }

    /// Hands a stream of input to a command, as fast as it takes it.
    pub(super) async fn take_input(
        &self,
        session: &SessionId,
        mut requests: InboundStream<StreamInputRequest>,
    ) -> Result<(), ConnectError> {
        let mut fed: Option<(LaunchedProcess, Option<AttachedStdin>)> = None;
        while let Some(request) = requests.next().await {
            let request = request.map_err(|error| {
                let why = error.message.unwrap_or_default();
                ConnectError::new(connectrpc::ErrorCode::Unknown, format!("error streaming input: {why}"))
            })?;
            match request.to_owned_message().event {
                Some(Event::Start(start)) => {
                    let process = self.find_running(session, start.process).await?;
                    let attachment = self.host.attach_process(session, &process.info.id, Replay::None).await;
                    let stdin = attachment.map_err(rpc_error)?.stdin();
                    fed = Some((process, stdin));
                }
                Some(Event::Data(data)) => {
                    let (process, stdin) = fed.as_ref().ok_or_else(|| {
                        ConnectError::invalid_argument("input before the command it is for: send `start` first")
                    })?;
                    let (bytes, what) = fitting(process, data.input.into_option())?;
                    let stdin = stdin.as_ref().ok_or_else(|| cannot(&format!("writing to {what}"), NO_STDIN))?;
                    stdin.write(bytes).await.map_err(|error| refused(error, what))?;
                }
                Some(Event::Keepalive(_)) => {}
                None => return Err(ConnectError::unimplemented("invalid event type")),
            }
        }
        Ok(())
    }

    /// Ends the input of a command. One that has none, or no more, is left as it is.
    pub(super) async fn close_stdin(&self, session: &SessionId, process: &LaunchedProcess) -> Result<(), ConnectError> {
        if process.spec.terminal.is_some() {
            return Err(cannot("closing stdin", NO_CLOSING));
        }
        match self.host.close_process_stdin(session, &process.info.id).await {
            Err(error) if error.code() == ErrorCode::InvalidState => Ok(()),
            outcome => outcome.map_err(rpc_error),
        }
    }
}

/// The bytes, when the command takes this kind of input, and where they go.
fn fitting(process: &LaunchedProcess, input: Option<ProcessInput>) -> Result<(Bytes, &'static str), ConnectError> {
    let has_terminal = process.spec.terminal.is_some();
    match input.and_then(|input| input.input) {
        Some(Input::Pty(bytes)) if has_terminal => Ok((bytes, "tty")),
        Some(Input::Pty(_)) => Err(cannot("writing to tty", NO_TERMINAL)),
        Some(Input::Stdin(_)) if has_terminal => Err(cannot("writing to stdin", ON_TERMINAL)),
        Some(Input::Stdin(_)) if process.spec.stdin == StdinMode::Null => Err(cannot("writing to stdin", NO_STDIN)),
        Some(Input::Stdin(bytes)) => Ok((bytes, "stdin")),
        None => Err(ConnectError::unimplemented("invalid input type")),
    }
}

fn cannot(what: &str, why: &str) -> ConnectError {
    ConnectError::failed_precondition(format!("error {what}: {why}"))
}

fn refused(error: Error, what: &str) -> ConnectError {
    match error.code() {
        ErrorCode::InvalidState => cannot(&format!("writing to {what}"), NO_STDIN),
        _ => rpc_error(error),
    }
}
