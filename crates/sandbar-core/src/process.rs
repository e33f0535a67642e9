//! Long-running processes of a session: specification, readiness, restarts and logs.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    CommandEnd, Error, ExecSpec, ProcessId, Resources, Result, SessionId, StdinMode, TerminalSize,
    duration_text,
};

/// Default of [`ProcessSpec::ready_timeout`].
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bounds of the delay before a restart.
const MIN_BACK_OFF: Duration = Duration::from_millis(100);
const MAX_BACK_OFF: Duration = Duration::from_secs(10);

/// Process to launch in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Environment variables, in addition to those of the session. None of the host's are passed.
    pub env: BTreeMap<String, String>,
    /// Working directory inside the sandbox; `/workspace` when absent.
    pub cwd: Option<String>,
    pub stdin: StdinMode,
    /// Run in a terminal of this size instead of with pipes: stdout and stderr are one stream.
    pub terminal: Option<TerminalSize>,
    /// User, by name or uid of the session's `/etc/passwd`; `root` when absent.
    pub user: Option<String>,
    /// Limits of this process. The `wall_time` of the session does not apply, and output is not
    /// limited: logs keep the end.
    pub resources: Resources,
    /// TCP port that it listens on, to be reachable from outside.
    pub expose_port: Option<u16>,
    pub ready: Readiness,
    #[serde(with = "duration_text")]
    pub ready_timeout: Duration,
    pub restart: RestartPolicy,
    /// Name by which its caller finds it.
    #[serde(default)]
    pub tag: Option<String>,
    #[serde(default)]
    pub end: CommandEnd,
}

impl ProcessSpec {
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
            stdin: StdinMode::Null,
            terminal: None,
            user: None,
            resources: Resources::default(),
            expose_port: None,
            ready: Readiness::None,
            ready_timeout: READY_TIMEOUT,
            restart: RestartPolicy::Never,
            tag: None,
            end: CommandEnd::default(),
        }
    }

    /// Returns the command of one run.
    pub fn command(&self) -> ExecSpec {
        ExecSpec {
            argv: self.argv.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            user: self.user.clone(),
            stdin: self.stdin,
            terminal: self.terminal,
            resources: self.resources.clone(),
            end: self.end,
        }
    }

    /// Checks the fields.
    pub fn validate(&self) -> Result<()> {
        self.command().validate()?;
        if self.expose_port == Some(0) {
            return Err(Error::invalid("expose_port", "port 0 is not valid")
                .with_hint("use the port the process listens on, between 1 and 65535"));
        }
        if self.ready_timeout.is_zero() {
            return Err(Error::invalid("ready_timeout", "`ready_timeout` is zero")
                .with_hint("leave it out for 30 seconds"));
        }
        self.ready.validate(self.expose_port)
    }
}

/// Condition for a process to be ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// Ready as soon as it is started.
    #[default]
    None,
    /// Ready when it accepts connections on a port; the exposed one when absent.
    Tcp { port: Option<u16> },
    /// Ready when it answers a GET of this path with status 2xx or 3xx.
    Http { port: Option<u16>, path: String },
    /// Ready when it has written this text to stdout or stderr.
    Log { text: String },
}

impl Readiness {
    /// Returns the port to probe, if the condition has one.
    pub fn port(&self, exposed: Option<u16>) -> Option<u16> {
        match self {
            Self::Tcp { port } | Self::Http { port, .. } => port.or(exposed),
            Self::None | Self::Log { .. } => None,
        }
    }

    fn validate(&self, exposed: Option<u16>) -> Result<()> {
        if let Self::Tcp { .. } | Self::Http { .. } = self {
            match self.port(exposed) {
                None => {
                    return Err(
                        Error::invalid("ready.port", "the readiness probe has no port")
                            .with_hint("give `ready.port` or `expose_port`"),
                    );
                }
                Some(0) => {
                    return Err(Error::invalid("ready.port", "port 0 is not valid")
                        .with_hint("use the port the process listens on, between 1 and 65535"));
                }
                Some(_) => {}
            }
        }
        match self {
            Self::Http { path, .. }
                if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                Err(Error::invalid(
                    "ready.path",
                    format!("path `{}` is not a URL path", path.escape_debug()),
                )
                .with_hint(
                    "start with `/` and percent-encode special characters, for example `/health?full=1`",
                ))
            }
            Self::Log { text } if text.is_empty() || text.contains('\n') => Err(Error::invalid(
                "ready.text",
                "the readiness text is empty or more than one line",
            )
            .with_hint("use a part of one line, for example `listening on`")),
            _ => Ok(()),
        }
    }
}

/// Restart policy of a process that has exited by itself. A process that was killed on request, or
/// was not ready in time, is never restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    #[default]
    Never,
    /// Restart if it did not exit with code 0, up to a limit.
    OnFailure { at_most: u32 },
    /// Restart however it ended.
    Always,
}

impl RestartPolicy {
    /// Whether a process that was restarted `restarts` times is restarted after this exit.
    pub fn allows(self, exit: &ProcessExit, restarts: u32) -> bool {
        match self {
            Self::Never => false,
            Self::OnFailure { at_most } => exit.code != Some(0) && restarts < at_most,
            Self::Always => true,
        }
    }

    /// Returns the delay after a number of consecutive exits: doubling from 100 ms to 10 s.
    pub fn back_off(consecutive_exits: u32) -> Duration {
        MIN_BACK_OFF
            .saturating_mul(2u32.saturating_pow(consecutive_exits))
            .min(MAX_BACK_OFF)
    }

    /// A process that ran for this long is stable: its delay starts at the minimum again.
    pub const STABLE_AFTER: Duration = MAX_BACK_OFF;
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessStatus {
    /// Not ready yet, or waiting for a restart.
    Starting,
    Running,
    Exited,
}

impl ProcessStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Exited => "exited",
        }
    }
}

impl fmt::Display for ProcessStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Exit of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessExit {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The OOM killer ended it or one of its children, at a memory limit.
    pub oom_killed: bool,
    /// It was stopped because it was not ready in time.
    pub not_ready: bool,
    /// Reason, if it did not exit by itself: `killed`, `host stopped`, `the box died`.
    pub reason: Option<String>,
    pub at: Timestamp,
}

impl fmt::Display for ProcessExit {
    /// Writes a phrase that fits after the name of a process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}")?,
            (None, Some(signal)) => write!(f, "was ended by signal {signal}")?,
            (None, None) => f.write_str("ended")?,
        }
        if self.oom_killed {
            f.write_str(" because it was out of memory")?;
        }
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

/// Description of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub id: ProcessId,
    pub session: SessionId,
    pub argv: Vec<String>,
    pub status: ProcessStatus,
    /// Pid inside the sandbox, while it runs.
    pub pid: Option<u32>,
    /// Exposed port, if any.
    pub port: Option<u16>,
    /// Address of that port on the host, until it has exited.
    pub address: Option<String>,
    pub started: Timestamp,
    /// Time it last became ready.
    pub ready_at: Option<Timestamp>,
    /// Exit of the last run.
    pub exit: Option<ProcessExit>,
    /// Number of restarts.
    pub restarts: u32,
}

/// State to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Ready.
    Ready,
    /// Exited, without a restart.
    Exited,
}

/// Output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// Selection of the logs of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Both when absent, in the order of writing.
    pub stream: Option<LogStream>,
    /// Continue with new output until the process has exited.
    pub follow: bool,
    /// Only the last lines of each stream.
    pub tail: Option<u64>,
}

/// Part of the logs of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    pub stream: LogStream,
    /// Offset in the total output of this stream.
    pub offset: u64,
    /// Bytes before it that were dropped before they were read.
    pub missed: u64,
    pub bytes: Bytes,
}

/// Earlier output that is sent first when attaching to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// None: only new output.
    #[default]
    None,
    /// The last lines of each stream.
    Tail,
    /// Everything in the logs.
    All,
}

impl Replay {
    /// Number of lines for [`Tail`](Self::Tail).
    pub const TAIL_LINES: u64 = 10;

    /// Returns the log query of an attached caller.
    pub fn query(self) -> LogQuery {
        let tail = match self {
            Self::None => Some(0),
            Self::Tail => Some(Self::TAIL_LINES),
            Self::All => None,
        };
        LogQuery {
            stream: None,
            follow: true,
            tail,
        }
    }
}

/// Event of a process, sent to an attached caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    /// The next bytes of a stream were dropped before they could be sent.
    Missed {
        stream: LogStream,
        bytes: u64,
    },
    /// Final exit: sent once, as the last event.
    Exited(ProcessExit),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_process_spec_is_refused_with_its_field() {
        let good = ProcessSpec {
            expose_port: Some(80),
            ..ProcessSpec::new(["server"])
        };
        let ready = |ready| ProcessSpec {
            ready,
            ..good.clone()
        };
        let log = |text: &str| Readiness::Log { text: text.into() };
        let http = |path: &str| Readiness::Http {
            port: None,
            path: path.into(),
        };
        for fine in [
            good.clone(),
            ready(Readiness::Tcp { port: None }),
            ready(http("/health?full=1")),
            ready(log("listening")),
            ProcessSpec {
                user: Some("www-data".into()),
                ..good.clone()
            },
        ] {
            fine.validate().unwrap();
        }
        let no_port = ProcessSpec {
            expose_port: None,
            ..ready(Readiness::Tcp { port: None })
        };
        for (bad, field) in [
            (ProcessSpec::new([""]), "argv"),
            (no_port, "ready.port"),
            (ready(Readiness::Tcp { port: Some(0) }), "ready.port"),
            (ready(http("health")), "ready.path"),
            (ready(http("/a b")), "ready.path"),
            (ready(http("/\r\nHost: x")), "ready.path"),
            (ready(log("")), "ready.text"),
            (ready(log("two\nlines")), "ready.text"),
            (
                ProcessSpec {
                    expose_port: Some(0),
                    ..good.clone()
                },
                "expose_port",
            ),
            (
                ProcessSpec {
                    ready_timeout: Duration::ZERO,
                    ..good.clone()
                },
                "ready_timeout",
            ),
            (
                ProcessSpec {
                    user: Some(String::new()),
                    ..good.clone()
                },
                "user",
            ),
        ] {
            let error = bad.validate().unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn restart_delay_doubles_up_to_its_limit() {
        let waits: Vec<u128> = [0, 1, 2, 6, 7, u32::MAX]
            .map(|n| RestartPolicy::back_off(n).as_millis())
            .into();
        assert_eq!(waits, [100, 200, 400, 6_400, 10_000, 10_000]);
    }

    #[test]
    fn restart_policy_depends_on_exit_code_and_count() {
        let exit = |code| ProcessExit {
            code,
            signal: None,
            oom_killed: false,
            not_ready: false,
            reason: None,
            at: Timestamp::UNIX_EPOCH,
        };
        let on_failure = RestartPolicy::OnFailure { at_most: 2 };
        assert!(on_failure.allows(&exit(Some(1)), 1) && on_failure.allows(&exit(None), 0));
        assert!(!on_failure.allows(&exit(Some(1)), 2) && !on_failure.allows(&exit(Some(0)), 0));
        assert!(RestartPolicy::Always.allows(&exit(Some(0)), u32::MAX));
        assert!(!RestartPolicy::Never.allows(&exit(Some(1)), 0));
    }

    #[test]
    fn process_spec_round_trips_through_json() {
        let spec = ProcessSpec {
            stdin: StdinMode::Piped,
            terminal: Some(TerminalSize {
                rows: 24,
                columns: 80,
            }),
            ready: Readiness::Http {
                port: Some(8080),
                path: "/".into(),
            },
            restart: RestartPolicy::OnFailure { at_most: 3 },
            ..ProcessSpec::new(["server", "--port", "8080"])
        };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(
            serde_json::from_str::<ProcessSpec>(&text).unwrap(),
            spec,
            "{text}"
        );
    }
}
