//! Starting a command.

use std::{path::Path, time::Duration};

use connectrpc::ConnectError;
use sandbar_core::{CommandEnd, Error, ErrorCode, ProcessSpec, Resources, SessionId, StdinMode};
use sandbar_host::Attachment;

use super::terminal_size;
use crate::{
    answer::rpc_error,
    envd::{account::resolve, told},
    generated::process::{ProcessConfig, StartRequest},
    surface::Surface,
    visitor::Visitor,
};

impl Surface {
    /// Starts a command, for no longer than `limit`. Who goes away leaves it running.
    pub(super) async fn start(
        &self,
        visitor: &Visitor,
        request: StartRequest,
        limit: Option<Duration>,
    ) -> Result<(u32, Attachment), ConnectError> {
        let account = self.account(visitor).await?;
        let ProcessConfig { cmd, args, mut envs, cwd, .. } = request.process.into_option().unwrap_or_default();
        told::tell(&mut envs, visitor);
        let cwd = cwd.filter(|cwd| !cwd.is_empty()).or_else(|| visitor.note.workdir.clone()).unwrap_or_default();
        let terminal = request.pty.into_option().map(terminal_size);
        // Older SDKs do not say, and write to it.
        let takes_stdin = terminal.is_some() || request.stdin.unwrap_or(true);
        let spec = ProcessSpec {
            env: envs,
            cwd: Some(resolve(&cwd, &account).map_err(rpc_error)?),
            stdin: if takes_stdin { StdinMode::Piped } else { StdinMode::Null },
            terminal,
            end: if terminal.is_some() { CommandEnd::Exit } else { CommandEnd::Output },
            user: Some(account.name),
            resources: Resources { wall_time: limit, ..Resources::default() },
            tag: request.tag,
            ..ProcessSpec::new([cmd].into_iter().chain(args))
        };
        let (command, cwd) = (spec.argv.join(" "), spec.cwd.clone().unwrap_or_default());
        match self.host.launch_attached(&visitor.session, spec).await {
            Ok((info, attachment)) => Ok((info.pid.unwrap_or_default(), attachment)),
            Err(error) => Err(self.explain(&visitor.session, error, &command, &cwd).await),
        }
    }

    /// Why a command did not start, in the words of the SDKs.
    async fn explain(&self, session: &SessionId, error: Error, command: &str, cwd: &str) -> ConnectError {
        let failed = |why: &str| ConnectError::invalid_argument(format!("error starting process '{command}': {why}"));
        match (error.code(), error.field()) {
            (_, Some("cwd")) => match self.host.stat(session, Path::new(cwd)).await {
                Err(missing) if missing.code() == ErrorCode::FileNotFound => {
                    ConnectError::invalid_argument(format!("cwd '{cwd}' does not exist"))
                }
                _ => failed(error.message()),
            },
            (ErrorCode::FileNotFound, Some("argv")) => failed("no such file or directory"),
            (ErrorCode::InvalidArgument, _) => failed(error.message()),
            (ErrorCode::Unavailable, Some("resources.pids")) => {
                ConnectError::resource_exhausted(format!("error starting process '{command}': {}", error.message()))
            }
            _ => rpc_error(error),
        }
    }
}
