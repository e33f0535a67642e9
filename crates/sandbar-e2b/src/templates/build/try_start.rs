//! Running the start command of a template once before the build succeeds.

use std::time::Duration;

use sandbar_core::{ProcessInfo, ProcessStatus, SessionId};
use sandbar_host::Host;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{BuildLog, Level, log::StepOutput};
use crate::sandboxes::{MAX_RETRY_DELAY, MIN_RETRY_DELAY, StartCommand, run};

/// Limit for the program to become ready.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
/// Without a ready command, a program that runs for this long counts as ready.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Runs the start command until it is ready. The error is the reason shown by SDKs.
pub(super) async fn try_start(
    host: &Host,
    session: &SessionId,
    start: &StartCommand,
    log: &BuildLog,
    cancelled: &CancellationToken,
) -> Result<(), String> {
    let process = start
        .launch(host, session)
        .await
        .map_err(|error| format!("start command failed: {}", error.chain()))?;
    let output = StepOutput {
        log,
        prefix: "ready",
        step: "finalize",
    };
    if !start.ready.is_empty() {
        let line = format!("[ready cmd]: {}", start.ready);
        log.add(Level::Info, Some("finalize"), line);
    }
    let begun = Instant::now();
    let mut delay = MIN_RETRY_DELAY;
    loop {
        let is_ready = if start.ready.is_empty() {
            begun.elapsed() >= SETTLE_TIME || process.is_none()
        } else {
            let checked = run(
                host,
                session,
                &start.ready,
                &start.context(),
                Some(&|stream, line| output.add(stream, line)),
                cancelled,
            )
            .await;
            match checked.map_err(|error| format!("ready command failed: {}", error.chain()))? {
                None => return Err("the build was cancelled".into()),
                Some(finished) => finished.is_success(),
            }
        };
        // Last: the program may have failed during the ready command.
        if let Some(failure) = failure_of(host, session, process.as_ref()).await {
            return Err(format!("start command failed: {failure}"));
        }
        if is_ready {
            log.add(Level::Info, Some("finalize"), "Template is ready");
            return Ok(());
        }
        if begun.elapsed() >= READY_TIMEOUT {
            return Err(format!(
                "ready command timed out after {} seconds",
                READY_TIMEOUT.as_secs()
            ));
        }
        sleep(delay).await;
        delay = (delay * 2).min(MAX_RETRY_DELAY);
    }
}

/// Returns why the program failed, if it has exited unsuccessfully.
async fn failure_of(
    host: &Host,
    session: &SessionId,
    process: Option<&ProcessInfo>,
) -> Option<String> {
    let status = host.get_process_status(session, &process?.id).await.ok()?;
    let exit = status
        .exit
        .filter(|_| status.status == ProcessStatus::Exited)?;
    match exit.code {
        Some(0) => None,
        Some(code) => Some(format!("exit status {code}")),
        None => Some("ended by a signal".to_owned()),
    }
}
