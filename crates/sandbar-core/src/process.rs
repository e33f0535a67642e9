//! Long-running programs of a session: what to run, when it counts as running, and what becomes of it.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    CommandEnd, Error, ExecSpec, ProcessId, Resources, Result, SessionId, StdinMode, TerminalSize, duration_text,
};

/// How long a process may take to become ready when it does not say.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The shortest and the longest wait before a process is started again.
const SHORTEST_BACK_OFF: Duration = Duration::from_millis(100);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(10);

/// A process to launch in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Environment, over the session's own. Nothing of the host's gets in.
    pub env: BTreeMap<String, String>,
    /// Working directory inside the sandbox; `/workspace` when absent.
    pub cwd: Option<String>,
    pub stdin: StdinMode,
    /// A terminal of this size instead of pipes: output and errors come as one stream of output, stdin is what is typed.
    pub terminal: Option<TerminalSize>,
    /// Who runs it, by name or number of the session's own `/etc/passwd`; `root` when absent.
    pub user: Option<String>,
    /// Limits of this process. Only a `wall_time` given here counts, and its output is not limited: logs keep the end.
    pub resources: Resources,
    /// A TCP port it listens on, to be reached from outside.
    pub expose_port: Option<u16>,
    pub ready: Readiness,
    #[serde(with = "duration_text")]
    pub ready_timeout: Duration,
    pub restart: RestartPolicy,
    /// A name its launcher finds it by.
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

    /// The command one run of it is.
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

    /// Checks what the types alone cannot.
    pub fn validate(&self) -> Result<()> {
        self.command().validate()?;
        if self.expose_port == Some(0) {
            return Err(Error::invalid("expose_port", "there is no port 0")
                .with_hint("use the port the process listens on, between 1 and 65535"));
        }
        if self.ready_timeout.is_zero() {
            return Err(Error::invalid("ready_timeout", "a process cannot be ready in no time")
                .with_hint("leave it out for 30 seconds"));
        }
        self.ready.validate(self.expose_port)
    }
}

/// When a process counts as running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// As soon as it is started.
    #[default]
    None,
    /// When it accepts connections on a port; the exposed one when absent.
    Tcp { port: Option<u16> },
    /// When it answers a GET of this path with a status of 2xx or 3xx.
    Http { port: Option<u16>, path: String },
    /// When it has written this text, to stdout or to stderr.
    Log { text: String },
}

impl Readiness {
    /// The port to look at, when it is one that is looked at.
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
                    return Err(Error::invalid("ready.port", "there is no port to look at")
                        .with_hint("give one here, or give `expose_port`, which is taken then"));
                }
                Some(0) => {
                    return Err(Error::invalid("ready.port", "there is no port 0")
                        .with_hint("use the port the process listens on, between 1 and 65535"));
                }
                Some(_) => {}
            }
        }
        match self {
            Self::Http { path, .. } if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err(Error::invalid("ready.path", format!("`{}` is no path of a URL", path.escape_debug()))
                    .with_hint("start with `/` and encode what is not plain, for example `/health?full=1`"))
            }
            Self::Log { text } if text.is_empty() || text.contains('\n') => {
                Err(Error::invalid("ready.text", "the text to look for is empty or more than one line")
                    .with_hint("use a part of one line, for example `listening on`"))
            }
            _ => Ok(()),
        }
    }
}

/// What happens when a process has ended by itself. One that was killed on request, or was not ready in time, is never
/// started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    #[default]
    Never,
    /// It is started again when it did not exit with code 0, at most so many times.
    OnFailure { at_most: u32 },
    /// It is started again however it ended.
    Always,
}

impl RestartPolicy {
    /// Whether a process that was started again `restarts` times is started once more after this end.
    pub fn allows(self, exit: &ProcessExit, restarts: u32) -> bool {
        match self {
            Self::Never => false,
            Self::OnFailure { at_most } => exit.code != Some(0) && restarts < at_most,
            Self::Always => true,
        }
    }

    /// How long to wait after so many ends in a row: doubling from 100 ms to 10 s.
    pub fn back_off(ends_in_a_row: u32) -> Duration {
        SHORTEST_BACK_OFF.saturating_mul(2u32.saturating_pow(ends_in_a_row)).min(LONGEST_BACK_OFF)
    }

    /// A process that ran for so long has left its trouble behind: the wait begins at the shortest again.
    pub const STEADY: Duration = LONGEST_BACK_OFF;
}

/// What a process does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessStatus {
    /// It is not ready yet, or waits to be started again.
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

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessExit {
    /// What it returned, when it returned.
    pub code: Option<i32>,
    /// The signal that ended it, when one did.
    pub signal: Option<i32>,
    /// The kernel killed it, or something it started, because a memory limit was reached.
    pub oom_killed: bool,
    /// It was stopped because it was not ready in time.
    pub not_ready: bool,
    /// Why, when it was not by itself: `killed`, `host stopped`, `the box died`.
    pub reason: Option<String>,
    pub at: Timestamp,
}

impl fmt::Display for ProcessExit {
    /// Fits after the name of a process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}")?,
            (None, Some(signal)) => write!(f, "was ended by signal {signal}")?,
            (None, None) => f.write_str("ended")?,
        }
        if self.oom_killed {
            f.write_str(" for want of memory")?;
        }
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

/// What is known about a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub id: ProcessId,
    pub session: SessionId,
    pub argv: Vec<String>,
    pub status: ProcessStatus,
    /// Its process id inside the sandbox, while it runs.
    pub pid: Option<u32>,
    /// The port it listens on, when that is exposed.
    pub port: Option<u16>,
    /// Where that port is reached from outside, until it has exited.
    pub address: Option<String>,
    pub started: Timestamp,
    /// When it last became ready.
    pub ready_at: Option<Timestamp>,
    /// How it ended; how its last run ended while it waits to be started again.
    pub exit: Option<ProcessExit>,
    /// How often it was started again.
    pub restarts: u32,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// It is running.
    Ready,
    /// It has exited, and is not started again.
    Exited,
}

/// Where a process wrote something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// Which part of the logs of a process is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Both when absent, in the order they were written.
    pub stream: Option<LogStream>,
    /// Go on with what is written from now on, until the process has exited.
    pub follow: bool,
    /// Only so many of the last lines of each stream.
    pub tail: Option<u64>,
}

/// A piece of the logs of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    pub stream: LogStream,
    /// Where it begins in all the process ever wrote to this stream.
    pub offset: u64,
    /// Bytes before it that were dropped before they could be read.
    pub missed: u64,
    pub bytes: Bytes,
}

/// What of the past somebody who attaches to a process is told first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// Only what is written from now on.
    #[default]
    None,
    /// The last lines of each stream.
    Tail,
    /// All that is kept.
    All,
}

impl Replay {
    /// So many lines are the last ones.
    pub const TAIL: u64 = 10;

    /// The logs of somebody who attaches.
    pub fn query(self) -> LogQuery {
        let tail = match self {
            Self::None => Some(0),
            Self::Tail => Some(Self::TAIL),
            Self::All => None,
        };
        LogQuery { stream: None, follow: true, tail }
    }
}

/// Something a process did, told to somebody who is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    /// Bytes that come next in a stream were dropped before they could be told.
    Missed {
        stream: LogStream,
        bytes: u64,
    },
    /// The end for good; exactly one, and last.
    Exited(ProcessExit),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_could_not_run_is_refused_and_the_field_is_named() {
        let good = ProcessSpec { expose_port: Some(80), ..ProcessSpec::new(["server"]) };
        let ready = |ready| ProcessSpec { ready, ..good.clone() };
        let log = |text: &str| Readiness::Log { text: text.into() };
        let http = |path: &str| Readiness::Http { port: None, path: path.into() };
        for fine in [
            good.clone(),
            ready(Readiness::Tcp { port: None }),
            ready(http("/health?full=1")),
            ready(log("listening")),
            ProcessSpec { user: Some("www-data".into()), ..good.clone() },
        ] {
            fine.validate().unwrap();
        }
        let no_port = ProcessSpec { expose_port: None, ..ready(Readiness::Tcp { port: None }) };
        for (bad, field) in [
            (ProcessSpec::new([""]), "argv"),
            (no_port, "ready.port"),
            (ready(Readiness::Tcp { port: Some(0) }), "ready.port"),
            (ready(http("health")), "ready.path"),
            (ready(http("/a b")), "ready.path"),
            (ready(http("/\r\nHost: x")), "ready.path"),
            (ready(log("")), "ready.text"),
            (ready(log("two\nlines")), "ready.text"),
            (ProcessSpec { expose_port: Some(0), ..good.clone() }, "expose_port"),
            (ProcessSpec { ready_timeout: Duration::ZERO, ..good.clone() }, "ready_timeout"),
            (ProcessSpec { user: Some(String::new()), ..good.clone() }, "user"),
        ] {
            let error = bad.validate().unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn the_wait_before_a_restart_doubles_up_to_its_limit() {
        let waits: Vec<u128> = [0, 1, 2, 6, 7, u32::MAX].map(|n| RestartPolicy::back_off(n).as_millis()).into();
        assert_eq!(waits, [100, 200, 400, 6_400, 10_000, 10_000]);
    }

    #[test]
    fn a_policy_counts_and_looks_at_the_code() {
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
    fn a_spec_comes_back_as_it_was_written_down() {
        let spec = ProcessSpec {
            stdin: StdinMode::Piped,
            terminal: Some(TerminalSize { rows: 24, columns: 80 }),
            ready: Readiness::Http { port: Some(8080), path: "/".into() },
            restart: RestartPolicy::OnFailure { at_most: 3 },
            ..ProcessSpec::new(["server", "--port", "8080"])
        };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<ProcessSpec>(&text).unwrap(), spec, "{text}");
    }
}
