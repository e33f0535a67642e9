//! The start command of a template, which runs in every sandbox created from it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sandbar_core::{ProcessInfo, ProcessSpec, Result, SessionId};
use sandbar_host::Host;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Sandboxes, end_after,
    shell::{self, Context, run},
};

/// Delay between two runs of the ready command; doubles from one run to the next.
pub(crate) const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// A program that every sandbox of a template runs from its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StartCommand {
    /// Shell command line; empty if there is only a ready command.
    pub(crate) start: String,
    /// Command line that succeeds once the program is ready; may be empty.
    pub(crate) ready: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) user: String,
    pub(crate) workdir: Option<String>,
}

impl StartCommand {
    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            user: &self.user,
            workdir: self.workdir.as_deref(),
            env: &self.env,
        }
    }

    /// Launches the program; `None` if there is only a ready command.
    pub(crate) async fn launch(
        &self,
        host: &Host,
        session: &SessionId,
    ) -> Result<Option<ProcessInfo>> {
        if self.start.is_empty() {
            return Ok(None);
        }
        let command = shell::command(host, session, &self.start, &self.context()).await?;
        let spec = ProcessSpec {
            env: command.env,
            cwd: command.cwd,
            user: command.user,
            ..ProcessSpec::new(command.argv)
        };
        host.launch_process(session, spec).await.map(Some)
    }
}

impl Sandboxes {
    /// Launches the start command in a sandbox and waits until it is ready, or for the ready
    /// timeout. A failure is only logged: the sandbox is usable without the program. The caller
    /// holds its lock.
    pub(crate) async fn start_program(&self, session: &SessionId, start: &StartCommand) {
        let starting = async {
            start.launch(&self.host, session).await?;
            if start.ready.is_empty() {
                return Ok(());
            }
            // The lifetime starts when the sandbox is usable: extend it by the ready timeout while
            // waiting, then set it again.
            let note = self.note(session).await?;
            let left = note
                .end_at
                .map(|end| Timestamp::now().duration_until(end))
                .unwrap_or_default();
            let left = Duration::try_from(left).unwrap_or_default();
            self.set_end(session, note, end_after(left + self.ready_timeout)?)
                .await?;
            // One run of the ready command may exceed the timeout: SDKs turn a waiting time into
            // `sleep 60`.
            let ready = timeout(self.ready_timeout, self.wait_until_ready(session, start)).await;
            self.set_end(session, self.note(session).await?, end_after(left)?)
                .await?;
            ready.unwrap_or_else(|_| {
                tracing::debug!(%session, "start command of a template is not ready yet");
                Ok(())
            })
        };
        if let Err(error) = starting.await {
            tracing::warn!(%session, error = error.chain(), "start command of a template failed");
        }
    }

    async fn wait_until_ready(&self, session: &SessionId, start: &StartCommand) -> Result<()> {
        let (mut delay, cancelled) = (MIN_RETRY_DELAY, CancellationToken::new());
        loop {
            let checked = run(
                &self.host,
                session,
                &start.ready,
                &start.context(),
                None,
                &cancelled,
            )
            .await?;
            if checked.is_none_or(|finished| finished.is_success()) {
                return Ok(());
            }
            sleep(delay).await;
            delay = (delay * 2).min(MAX_RETRY_DELAY);
        }
    }
}
