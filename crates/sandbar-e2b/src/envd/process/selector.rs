//! Selecting a command by process id or tag.

use buffa::{Inline, MessageField};
use connectrpc::ConnectError;
use sandbar_core::{ErrorCode, ProcessStatus, SessionId};
use sandbar_host::LaunchedProcess;

use crate::{
    envd::Envd,
    generated::process::{__buffa::oneof::process_selector::Selector, ProcessSelector},
    rest::rpc_error,
};

/// Selector field of a request.
pub(super) type Selected = MessageField<ProcessSelector, Inline<ProcessSelector>>;

impl Envd {
    /// Returns a command that runs or exited recently.
    pub(super) async fn find(
        &self,
        session: &SessionId,
        which: Selected,
    ) -> Result<LaunchedProcess, ConnectError> {
        let selector = selector(which)?;
        let found = match &selector {
            Selector::Pid(pid) => self.host.process_by_pid(session, *pid).await,
            Selector::Tag(tag) => self.host.process_by_tag(session, tag).await,
        };
        found.map_err(|error| match error.code() {
            ErrorCode::ProcessNotFound => not_found(&selector),
            _ => rpc_error(error),
        })
    }

    /// Returns a command that runs.
    pub(super) async fn find_running(
        &self,
        session: &SessionId,
        which: Selected,
    ) -> Result<LaunchedProcess, ConnectError> {
        let found = self.find(session, which.clone()).await?;
        if found.info.status == ProcessStatus::Exited {
            return Err(not_found(&selector(which)?));
        }
        Ok(found)
    }
}

fn selector(which: Selected) -> Result<Selector, ConnectError> {
    let selector = which.into_option().and_then(|selector| selector.selector);
    selector.ok_or_else(|| {
        ConnectError::unimplemented("process selector is missing: give `pid` or `tag`")
    })
}

fn not_found(selector: &Selector) -> ConnectError {
    ConnectError::not_found(match selector {
        Selector::Pid(pid) => format!("process with pid {pid} not found"),
        Selector::Tag(tag) => format!("process with tag {tag} not found"),
    })
}
