//! The program of a template: tried out when it is built, and run in every sandbox made from it.

use std::time::Duration;

use jiff::Timestamp;
use sandbar_core::{ProcessInfo, ProcessSpec, ProcessStatus, Result, SessionId};
use sandbar_host::Host;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    build::{BuildLog, Context, Level, Said, command, run},
    settings::StartCommand,
};
use crate::{surface::Surface, wake::end_after};

/// How long a program may take to be ready when its template is built.
const LONGEST_TRY: Duration = Duration::from_mins(5);
/// Between two questions: at first, and later.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// Without a way to ask, a program that still runs after this is taken for ready.
const SETTLED: Duration = Duration::from_secs(1);

impl StartCommand {
    fn context(&self) -> Context<'_> {
        Context { user: &self.user, workdir: self.workdir.as_deref(), env: &self.env }
    }
}

async fn launch(host: &Host, session: &SessionId, start: &StartCommand) -> Result<Option<ProcessInfo>> {
    if start.start.is_empty() {
        return Ok(None);
    }
    let command = command(host, session, &start.start, &start.context()).await?;
    let spec = ProcessSpec { env: command.env, cwd: command.cwd, user: command.user, ..ProcessSpec::new(command.argv) };
    host.launch_process(session, spec).await.map(Some)
}

/// Runs the program of a template that is built, until it is ready.
pub(super) async fn try_out(
    host: &Host,
    session: &SessionId,
    start: &StartCommand,
    log: &BuildLog,
    cancelled: &CancellationToken,
) -> Result<(), String> {
    let process =
        launch(host, session, start).await.map_err(|error| format!("start command failed: {}", error.chain()))?;
    let said = Said { log, prefix: "ready", step: "finalize" };
    if !start.ready.is_empty() {
        log.say(Level::Info, Some("finalize"), format!("[ready cmd]: {}", start.ready));
    }
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let ready = if start.ready.is_empty() {
            begun.elapsed() >= SETTLED || process.is_none()
        } else {
            let asked = run(host, session, &start.ready, &start.context(), Some(&said), cancelled).await;
            match asked.map_err(|error| format!("ready command failed: {}", error.chain()))? {
                None => return Err("the build was cancelled".into()),
                Some(ended) => ended.is_success(),
            }
        };
        // Last of all: it may have failed while it was asked whether it is ready.
        if let Some(failed) = failed(host, session, process.as_ref()).await {
            return Err(format!("start command failed: {failed}"));
        }
        if ready {
            log.say(Level::Info, Some("finalize"), "Template is ready");
            return Ok(());
        }
        if begun.elapsed() >= LONGEST_TRY {
            return Err(format!("ready command timed out after {} seconds", LONGEST_TRY.as_secs()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// What is wrong with the program, if it has ended badly.
async fn failed(host: &Host, session: &SessionId, process: Option<&ProcessInfo>) -> Option<String> {
    let status = host.get_process_status(session, &process?.id).await.ok()?;
    let exit = status.exit.filter(|_| status.status == ProcessStatus::Exited)?;
    match exit.code {
        Some(0) => None,
        Some(code) => Some(format!("exit status {code}")),
        None => Some("it was ended by a signal".to_owned()),
    }
}

impl Surface {
    /// Starts the program of a template in a sandbox, and waits until it is ready, or for as long as who asked would wait.
    /// A program that does not start is the sandbox's own affair: it is there all the same. The caller has its turn.
    pub(crate) async fn start_program(&self, session: &SessionId, start: &StartCommand) {
        let starting = async {
            launch(&self.host, session, start).await?;
            if start.ready.is_empty() {
                return Ok(());
            }
            // Its time begins when it can be used; until then it has so much more.
            let note = self.note(session).await?;
            let left = note.end_at.map(|end| Timestamp::now().duration_until(end)).unwrap_or_default();
            let left = Duration::try_from(left).unwrap_or_default();
            self.set_end(session, note, end_after(left + self.ready_wait)?).await?;
            // What asks may itself take long: `sleep 60` is what SDKs make of a time to wait.
            let asked = timeout(self.ready_wait, self.wait_until_ready(session, start)).await;
            self.set_end(session, self.note(session).await?, end_after(left)?).await?;
            asked.unwrap_or_else(|_| {
                tracing::debug!(%session, "the program of a template is not ready yet");
                Ok(())
            })
        };
        if let Err(error) = starting.await {
            tracing::warn!(%session, error = error.chain(), "the program of a template did not start");
        }
    }

    async fn wait_until_ready(&self, session: &SessionId, start: &StartCommand) -> Result<()> {
        let (mut pause, cancelled) = (FIRST_PAUSE, CancellationToken::new());
        loop {
            let asked = run(&self.host, session, &start.ready, &start.context(), None, &cancelled).await?;
            if asked.is_none_or(|ended| ended.is_success()) {
                return Ok(());
            }
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}
