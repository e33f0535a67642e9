//! Commands of tools.

use std::sync::Arc;

use futures::future::BoxFuture;
use sandbar_core::{ExecSpec, Result};
use sandbar_runtime::RunningCommand;
use sandbar_tools::CommandRunner;

use crate::{
    host::{Inner, blocking},
    session::Session,
    state::SessionRecord,
};

/// Starts commands in a session for a call that has entered it already.
#[derive(Debug)]
pub(super) struct SessionRunner {
    pub(super) inner: Arc<Inner>,
    pub(super) session: Arc<Session>,
    pub(super) record: Arc<SessionRecord>,
}

impl CommandRunner for SessionRunner {
    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunningCommand>> {
        let (inner, session, record) = (Arc::clone(&self.inner), Arc::clone(&self.session), Arc::clone(&self.record));
        Box::pin(blocking(move || inner.start_command(&session, &record, spec)))
    }
}
