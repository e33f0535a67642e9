//! Starting a command.

use std::{path::Path, time::Duration};

use connectrpc::ConnectError;
use sandbar_core::{CommandEnd, Error, ErrorCode, ProcessSpec, Resources, SessionId, StdinMode};
use sandbar_host::Attachment;

use super::service::terminal_size;
use crate::{
    auth::SessionCaller,
    envd::{Envd, env, users::resolve},
    generated::process::{ProcessConfig, StartRequest},
    rest::rpc_error,
};

impl Envd {
    /// Starts a command with a time limit. It goes on when the client disconnects.
    pub(super) async fn start(
        &self,
        caller: &SessionCaller,
        request: StartRequest,
        limit: Option<Duration>,
    ) -> Result<(u32, Attachment), ConnectError> {
        let account = self.account(caller).await?;
        let ProcessConfig {
            cmd,
            args,
            mut envs,
            cwd,
            ..
        } = request.process.into_option().unwrap_or_default();
        env::add(&mut envs, caller);
        let cwd = cwd
            .filter(|cwd| !cwd.is_empty())
            .or_else(|| caller.note.workdir.clone())
            .unwrap_or_default();
        let terminal = request.pty.into_option().map(terminal_size);
        // Older SDKs omit the field and still write to stdin.
        let takes_stdin = terminal.is_some() || request.stdin.unwrap_or(true);
        let spec = ProcessSpec {
            env: envs,
            cwd: Some(resolve(&cwd, &account).map_err(rpc_error)?),
            stdin: if takes_stdin {
                StdinMode::Piped
            } else {
                StdinMode::Null
            },
            terminal,
            end: if terminal.is_some() {
                CommandEnd::Exit
            } else {
                CommandEnd::Output
            },
            user: Some(account.name),
            resources: Resources {
                wall_time: limit,
                ..Resources::default()
            },
            tag: request.tag,
            ..ProcessSpec::new([cmd].into_iter().chain(args))
        };
        let (command, cwd) = (spec.argv.join(" "), spec.cwd.clone().unwrap_or_default());
        match self.host.launch_attached(&caller.session, spec).await {
            Ok((info, attachment)) => Ok((info.pid.unwrap_or_default(), attachment)),
            Err(error) => Err(self.explain(&caller.session, error, &command, &cwd).await),
        }
    }

    /// Converts a start error to the texts SDKs expect.
    async fn explain(
        &self,
        session: &SessionId,
        error: Error,
        command: &str,
        cwd: &str,
    ) -> ConnectError {
        let failed = |why: &str| {
            ConnectError::invalid_argument(format!("error starting process '{command}': {why}"))
        };
        match (error.code(), error.field()) {
            (_, Some("cwd")) => match self.host.stat(session, Path::new(cwd)).await {
                Err(missing) if missing.code() == ErrorCode::FileNotFound => {
                    ConnectError::invalid_argument(format!("cwd '{cwd}' does not exist"))
                }
                _ => failed(error.message()),
            },
            (ErrorCode::FileNotFound, Some("argv")) => failed("no such file or directory"),
            (ErrorCode::InvalidArgument, _) => failed(error.message()),
            (ErrorCode::Unavailable, Some("resources.pids")) => ConnectError::resource_exhausted(
                format!("error starting process '{command}': {}", error.message()),
            ),
            _ => rpc_error(error),
        }
    }
}
