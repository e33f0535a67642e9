//! Starts the commands of tools.

use std::sync::Arc;

use futures::future::BoxFuture;
use sandbar_core::{ExecSpec, Result};
use sandbar_runtime::RunningCommand;
use sandbar_tools::CommandRunner;

use super::session::{LocalSession, blocking};

/// Runner for a call that holds the admission lock.
#[derive(Debug)]
pub(super) struct LocalRunner(pub(super) Arc<LocalSession>);

impl CommandRunner for LocalRunner {
    fn start(&self, mut spec: ExecSpec) -> BoxFuture<'_, Result<RunningCommand>> {
        let session = Arc::clone(&self.0);
        Box::pin(blocking(move || {
            let mut env = session.env.clone();
            env.append(&mut spec.env);
            spec.env = env;
            spec.resources = spec.resources.or(&session.resources);
            spec.cwd = session.root.working_directory(spec.cwd)?;
            session.sandbox()?.exec(spec)
        }))
    }
}
