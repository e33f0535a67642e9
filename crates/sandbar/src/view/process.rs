//! Presentation of processes.

use sandbar_core::{ProcessExit, ProcessInfo, ProcessStatus};
use serde::Serialize;

use crate::terminal::output::printable;

/// JSON of a process.
#[derive(Debug, Serialize)]
pub(crate) struct ProcessView<'a> {
    process_id: &'a str,
    session_id: &'a str,
    argv: &'a [String],
    status: &'static str,
    pid: Option<u32>,
    port: Option<u16>,
    address: Option<&'a str>,
    started: String,
    ready_at: Option<String>,
    exit: Option<ExitView<'a>>,
    restarts: u32,
}

#[derive(Debug, Serialize)]
struct ExitView<'a> {
    code: Option<i32>,
    signal: Option<i32>,
    oom_killed: bool,
    not_ready: bool,
    reason: Option<&'a str>,
    at: String,
}

impl<'a> From<&'a ProcessInfo> for ProcessView<'a> {
    fn from(process: &'a ProcessInfo) -> Self {
        Self {
            process_id: process.id.as_str(),
            session_id: process.session.as_str(),
            argv: &process.argv,
            status: process.status.as_str(),
            pid: process.pid,
            port: process.port,
            address: process.address.as_deref(),
            started: process.started.to_string(),
            ready_at: process.ready_at.map(|ready| ready.to_string()),
            exit: process.exit.as_ref().map(|exit| ExitView {
                code: exit.code,
                signal: exit.signal,
                oom_killed: exit.oom_killed,
                not_ready: exit.not_ready,
                reason: exit.reason.as_deref(),
                at: exit.at.to_string(),
            }),
            restarts: process.restarts,
        }
    }
}

/// Formats the status of a process: `running`, `exited (code 0)`, `exited (signal 15, killed)`.
pub(crate) fn process_status(process: &ProcessInfo) -> String {
    match (process.status, &process.exit) {
        (ProcessStatus::Exited, Some(exit)) => format!("exited ({})", how(exit)),
        (ProcessStatus::Starting, Some(exit)) => format!("starting (last: {})", how(exit)),
        (status, _) => status.to_string(),
    }
}

fn how(exit: &ProcessExit) -> String {
    let ended = match (exit.code, exit.signal) {
        (Some(code), _) => Some(format!("code {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => None,
    };
    let out_of_memory = exit.oom_killed.then(|| "out of memory".to_owned());
    let reason = exit
        .reason
        .as_ref()
        .map(|reason| printable(reason.as_bytes()));
    let not_ready = (exit.not_ready && reason.is_none()).then(|| "not ready in time".to_owned());
    let parts: Vec<String> = [ended, out_of_memory, not_ready, reason]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        "unknown".to_owned()
    } else {
        parts.join(", ")
    }
}

/// Returns the text on one line, cut to `max_length` characters.
pub(crate) fn shortened(text: &str, max_length: usize) -> String {
    let text = printable(text.as_bytes());
    match text.char_indices().nth(max_length) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sandbar_core::{ProcessId, SessionId};

    use super::*;

    #[test]
    fn status_says_how_a_process_exited() {
        let by_itself = ProcessExit {
            code: Some(0),
            signal: None,
            oom_killed: false,
            not_ready: false,
            reason: None,
            at: Timestamp::UNIX_EPOCH,
        };
        let by_signal = ProcessExit {
            code: None,
            signal: Some(15),
            ..by_itself.clone()
        };
        let process = |status, exit| ProcessInfo {
            id: ProcessId::random(),
            session: SessionId::random(),
            argv: vec![],
            status,
            pid: None,
            port: None,
            address: None,
            started: Timestamp::UNIX_EPOCH,
            ready_at: None,
            exit,
            restarts: 0,
        };
        let reason = Some("killed".to_owned());
        for (status, exit, words) in [
            (ProcessStatus::Running, None, "running"),
            (
                ProcessStatus::Exited,
                Some(by_itself.clone()),
                "exited (code 0)",
            ),
            (
                ProcessStatus::Exited,
                Some(ProcessExit {
                    reason,
                    ..by_signal.clone()
                }),
                "exited (signal 15, killed)",
            ),
            (
                ProcessStatus::Exited,
                Some(ProcessExit {
                    oom_killed: true,
                    ..by_signal.clone()
                }),
                "exited (signal 15, out of memory)",
            ),
            (
                ProcessStatus::Exited,
                Some(ProcessExit {
                    not_ready: true,
                    ..by_signal
                }),
                "exited (signal 15, not ready in time)",
            ),
            (
                ProcessStatus::Starting,
                Some(ProcessExit {
                    code: Some(1),
                    ..by_itself
                }),
                "starting (last: code 1)",
            ),
        ] {
            assert_eq!(process_status(&process(status, exit)), words);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("a\nb", 9), "a\\nb");
    }
}
