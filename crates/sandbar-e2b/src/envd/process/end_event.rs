//! The end event of a command, in the format of the SDKs.

use sandbar_core::ProcessExit;

use crate::generated::process::process_event::EndEvent;

/// Names of signals as Go prints them, from 1 on.
const SIGNALS: [&str; 31] = [
    "hangup",
    "interrupt",
    "quit",
    "illegal instruction",
    "trace/breakpoint trap",
    "aborted",
    "bus error",
    "floating point exception",
    "killed",
    "user defined signal 1",
    "segmentation fault",
    "user defined signal 2",
    "broken pipe",
    "alarm clock",
    "terminated",
    "stack fault",
    "child exited",
    "continued",
    "stopped (signal)",
    "stopped",
    "stopped (tty input)",
    "stopped (tty output)",
    "urgent I/O condition",
    "CPU time limit exceeded",
    "file size limit exceeded",
    "virtual timer expired",
    "profiling timer expired",
    "window changed",
    "I/O possible",
    "power failure",
    "bad system call",
];

/// Returns the last event of a command.
pub(super) fn end_event(exit: &ProcessExit) -> EndEvent {
    let (exit_code, exited, status) = match (exit.code, exit.signal) {
        (Some(code), _) => (code, true, format!("exit status {code}")),
        (None, signal) => (
            -1,
            false,
            format!("signal: {}", signal_name(signal.unwrap_or(9))),
        ),
    };
    let error = (exit_code != 0).then(|| status.clone());
    EndEvent {
        exit_code,
        exited,
        status,
        error,
        ..Default::default()
    }
}

fn signal_name(number: i32) -> String {
    let known = usize::try_from(number - 1)
        .ok()
        .and_then(|index| SIGNALS.get(index));
    known.map_or_else(|| format!("signal {number}"), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use sandbar_core::ProcessExit;

    use super::*;

    #[test]
    fn end_event_has_code_status_and_error() {
        let event = |code, signal| {
            let exit = ProcessExit {
                code,
                signal,
                oom_killed: false,
                not_ready: false,
                reason: None,
                at: jiff::Timestamp::UNIX_EPOCH,
            };
            let EndEvent {
                exit_code,
                exited,
                status,
                error,
                ..
            } = end_event(&exit);
            (exit_code, exited, status, error)
        };
        assert_eq!(
            event(Some(0), None),
            (0, true, "exit status 0".into(), None)
        );
        assert_eq!(
            event(Some(3), None),
            (
                3,
                true,
                "exit status 3".into(),
                Some("exit status 3".into())
            )
        );
        assert_eq!(
            event(None, Some(9)),
            (
                -1,
                false,
                "signal: killed".into(),
                Some("signal: killed".into())
            )
        );
        assert_eq!(event(None, Some(11)).2, "signal: segmentation fault");
        assert_eq!(event(None, Some(31)).2, "signal: bad system call");
        assert_eq!(event(None, Some(40)).2, "signal: signal 40");
    }
}
