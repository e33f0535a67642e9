//! [`SessionRunner`]: starts the commands of tools in a session.

use std::sync::Arc;

use futures::future::BoxFuture;
use sandbar_core::{ExecSpec, Result};
use sandbar_runtime::RunningCommand;
use sandbar_tools::CommandRunner;

use crate::{engine::Engine, session::Session, state::SessionRecord};

/// Starts commands for a tool call that holds a shared entry.
#[derive(Debug)]
pub(super) struct SessionRunner {
    pub(super) engine: Arc<Engine>,
    pub(super) session: Arc<Session>,
    pub(super) record: Arc<SessionRecord>,
}

impl CommandRunner for SessionRunner {
    fn start(&self, spec: ExecSpec) -> BoxFuture<'_, Result<RunningCommand>> {
        let (engine, session, record) = (
            Arc::clone(&self.engine),
            Arc::clone(&self.session),
            Arc::clone(&self.record),
        );
        let slots = Arc::clone(&self.session.slots);
        Box::pin(async move {
            let start = move || engine.start_counted(&session, &record, spec);
            slots.start(start).await
        })
    }
}
