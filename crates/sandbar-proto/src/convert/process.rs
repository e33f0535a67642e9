//! Process messages.

use sandbar_core::{
    Error, ProcessExit, ProcessId, ProcessInfo, ProcessSpec, ProcessStatus, Readiness,
    RestartPolicy, Result, SessionId, StdinMode, TerminalSize, WaitFor,
};

use super::scalar::{
    known, missing, pack_duration, pack_time, unpack_duration, unpack_optional_time, unpack_port,
    unpack_time,
};
use crate::v1::{self, readiness::Probe, restart_policy::Policy};

impl v1::LaunchProcessRequest {
    pub fn new(session: &SessionId, spec: ProcessSpec) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            argv: spec.argv,
            env: spec.env,
            cwd: spec.cwd.unwrap_or_default(),
            stdin: spec.stdin == StdinMode::Piped,
            resources: v1::Resources::from(&spec.resources).into(),
            terminal: spec.terminal.map(v1::TerminalSize::from).into(),
            user: spec.user.unwrap_or_default(),
            expose_port: spec.expose_port.map(Into::into),
            ready: v1::Readiness::from(spec.ready).into(),
            ready_timeout: pack_duration(spec.ready_timeout),
            restart: v1::RestartPolicy::from(spec.restart).into(),
            ..Default::default()
        }
    }

    /// Returns the session and the process to launch.
    pub fn unpack(self) -> Result<(SessionId, ProcessSpec)> {
        let session = SessionId::new(self.session_id)?;
        let defaults = ProcessSpec::new(self.argv);
        let spec = ProcessSpec {
            env: self.env,
            cwd: if self.cwd.is_empty() {
                None
            } else {
                Some(self.cwd)
            },
            stdin: if self.stdin {
                StdinMode::Piped
            } else {
                StdinMode::Null
            },
            terminal: self
                .terminal
                .into_option()
                .map(TerminalSize::try_from)
                .transpose()?,
            user: if self.user.is_empty() {
                None
            } else {
                Some(self.user)
            },
            resources: self
                .resources
                .into_option()
                .unwrap_or_default()
                .try_into()?,
            expose_port: unpack_port("expose_port", self.expose_port)?,
            ready: self.ready.into_option().unwrap_or_default().try_into()?,
            ready_timeout: unpack_duration("ready_timeout", self.ready_timeout)?
                .unwrap_or(defaults.ready_timeout),
            restart: self.restart.into_option().unwrap_or_default().into(),
            ..defaults
        };
        spec.validate()?;
        Ok((session, spec))
    }
}

impl From<Readiness> for v1::Readiness {
    fn from(ready: Readiness) -> Self {
        let probe = match ready {
            Readiness::None => None,
            Readiness::Tcp { port } => Some(
                v1::TcpProbe {
                    port: port.map(Into::into),
                    ..Default::default()
                }
                .into(),
            ),
            Readiness::Http { port, path } => Some(
                v1::HttpProbe {
                    port: port.map(Into::into),
                    path,
                    ..Default::default()
                }
                .into(),
            ),
            Readiness::Log { text } => Some(
                v1::LogProbe {
                    text,
                    ..Default::default()
                }
                .into(),
            ),
        };
        Self {
            probe,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Readiness> for Readiness {
    type Error = Error;

    fn try_from(wire: v1::Readiness) -> Result<Self> {
        Ok(match wire.probe {
            None => Self::None,
            Some(Probe::Tcp(probe)) => Self::Tcp {
                port: unpack_port("ready.port", probe.port)?,
            },
            Some(Probe::Http(probe)) => {
                let probe = *probe;
                Self::Http {
                    port: unpack_port("ready.port", probe.port)?,
                    path: probe.path,
                }
            }
            Some(Probe::Log(probe)) => Self::Log { text: probe.text },
        })
    }
}

impl From<RestartPolicy> for v1::RestartPolicy {
    fn from(restart: RestartPolicy) -> Self {
        let policy = match restart {
            RestartPolicy::Never => None,
            RestartPolicy::OnFailure { at_most } => {
                let at_most = Some(at_most).filter(|&times| times < u32::MAX);
                Some(
                    v1::RestartOnFailure {
                        at_most,
                        ..Default::default()
                    }
                    .into(),
                )
            }
            RestartPolicy::Always => Some(v1::RestartAlways::default().into()),
        };
        Self {
            policy,
            ..Default::default()
        }
    }
}

impl From<v1::RestartPolicy> for RestartPolicy {
    fn from(wire: v1::RestartPolicy) -> Self {
        match wire.policy {
            None => Self::Never,
            Some(Policy::OnFailure(policy)) => Self::OnFailure {
                at_most: policy.at_most.unwrap_or(u32::MAX),
            },
            Some(Policy::Always(_)) => Self::Always,
        }
    }
}

impl From<ProcessInfo> for v1::Process {
    fn from(process: ProcessInfo) -> Self {
        Self {
            process_id: process.id.into(),
            session_id: process.session.into(),
            argv: process.argv,
            status: match process.status {
                ProcessStatus::Starting => v1::ProcessStatus::Starting,
                ProcessStatus::Running => v1::ProcessStatus::Running,
                ProcessStatus::Exited => v1::ProcessStatus::Exited,
            }
            .into(),
            pid: process.pid,
            port: process.port.map(Into::into),
            address: process.address.unwrap_or_default(),
            started: pack_time(process.started),
            ready_at: process.ready_at.map_or_else(Default::default, pack_time),
            exit: process.exit.map(v1::ProcessExit::from).into(),
            restarts: process.restarts,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Process> for ProcessInfo {
    type Error = Error;

    fn try_from(wire: v1::Process) -> Result<Self> {
        Ok(Self {
            id: ProcessId::new(wire.process_id)?,
            session: SessionId::new(wire.session_id)?,
            argv: wire.argv,
            status: match known("status", wire.status)? {
                v1::ProcessStatus::PROCESS_STATUS_UNSPECIFIED => return Err(missing("status")),
                v1::ProcessStatus::PROCESS_STATUS_STARTING => ProcessStatus::Starting,
                v1::ProcessStatus::PROCESS_STATUS_RUNNING => ProcessStatus::Running,
                v1::ProcessStatus::PROCESS_STATUS_EXITED => ProcessStatus::Exited,
            },
            pid: wire.pid,
            port: unpack_port("port", wire.port)?,
            address: if wire.address.is_empty() {
                None
            } else {
                Some(wire.address)
            },
            started: unpack_time("started", wire.started)?,
            ready_at: unpack_optional_time("ready_at", wire.ready_at)?,
            exit: wire
                .exit
                .into_option()
                .map(ProcessExit::try_from)
                .transpose()?,
            restarts: wire.restarts,
        })
    }
}

impl From<ProcessExit> for v1::ProcessExit {
    fn from(exit: ProcessExit) -> Self {
        Self {
            code: exit.code,
            signal: exit.signal,
            oom_killed: exit.oom_killed,
            not_ready: exit.not_ready,
            reason: exit.reason.unwrap_or_default(),
            at: pack_time(exit.at),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::ProcessExit> for ProcessExit {
    type Error = Error;

    fn try_from(wire: v1::ProcessExit) -> Result<Self> {
        Ok(Self {
            code: wire.code,
            signal: wire.signal,
            oom_killed: wire.oom_killed,
            not_ready: wire.not_ready,
            reason: if wire.reason.is_empty() {
                None
            } else {
                Some(wire.reason)
            },
            at: unpack_time("exit.at", wire.at)?,
        })
    }
}

impl v1::WaitProcessRequest {
    pub fn new(session: &SessionId, process: &ProcessId, wait_for: WaitFor) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            process_id: process.as_str().to_owned(),
            wait_for: match wait_for {
                WaitFor::Ready => v1::WaitFor::Ready,
                WaitFor::Exited => v1::WaitFor::Exited,
            }
            .into(),
            ..Default::default()
        }
    }

    /// Returns session, process and condition.
    pub fn unpack(self) -> Result<(SessionId, ProcessId, WaitFor)> {
        let wait_for = match known("wait_for", self.wait_for)? {
            v1::WaitFor::WAIT_FOR_UNSPECIFIED | v1::WaitFor::WAIT_FOR_READY => WaitFor::Ready,
            v1::WaitFor::WAIT_FOR_EXITED => WaitFor::Exited,
        };
        Ok((
            SessionId::new(self.session_id)?,
            ProcessId::new(self.process_id)?,
            wait_for,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use sandbar_core::Resources;

    use super::*;

    #[test]
    fn process_spec_survives_the_wire() {
        let session = SessionId::new("box").unwrap();
        let plain = ProcessSpec::new(["server"]);
        let full = ProcessSpec {
            argv: vec!["server".into(), "--port".into(), "80".into()],
            env: [("A".to_owned(), "b".to_owned())].into(),
            cwd: Some("/tmp".into()),
            stdin: StdinMode::Piped,
            terminal: Some(TerminalSize {
                rows: 24,
                columns: 80,
            }),
            user: Some("www-data".into()),
            resources: Resources {
                wall_time: Some(Duration::from_secs(3)),
                ..Resources::default()
            },
            expose_port: Some(80),
            ready: Readiness::None,
            ready_timeout: Duration::from_millis(1500),
            restart: RestartPolicy::Always,
            ..plain.clone()
        };
        let ready = |ready| ProcessSpec {
            ready,
            ..full.clone()
        };
        let restart = |restart| ProcessSpec {
            restart,
            ..plain.clone()
        };
        for spec in [
            plain.clone(),
            full.clone(),
            ready(Readiness::Tcp { port: None }),
            ready(Readiness::Tcp { port: Some(65535) }),
            ready(Readiness::Http {
                port: None,
                path: "/health?full=1".into(),
            }),
            ready(Readiness::Http {
                port: Some(1),
                path: "/".into(),
            }),
            ready(Readiness::Log {
                text: "listening on".into(),
            }),
            restart(RestartPolicy::OnFailure { at_most: 0 }),
            restart(RestartPolicy::OnFailure { at_most: 3 }),
            restart(RestartPolicy::OnFailure { at_most: u32::MAX }),
        ] {
            let received = v1::LaunchProcessRequest::new(&session, spec.clone())
                .unpack()
                .unwrap();
            assert_eq!(received, (session.clone(), spec));
        }
    }

    #[test]
    fn launch_request_has_defaults() {
        let wire = v1::LaunchProcessRequest {
            session_id: "box".into(),
            argv: vec!["server".into()],
            ..Default::default()
        };
        assert_eq!(wire.unpack().unwrap().1, ProcessSpec::new(["server"]));
    }

    #[test]
    fn process_survives_the_wire() {
        let plain = ProcessInfo {
            id: ProcessId::new("p1").unwrap(),
            session: SessionId::new("box").unwrap(),
            argv: vec!["server".into()],
            status: ProcessStatus::Starting,
            pid: None,
            port: None,
            address: None,
            started: Timestamp::new(1_700_000_000, 5).unwrap(),
            ready_at: None,
            exit: None,
            restarts: 0,
        };
        let exit = ProcessExit {
            code: None,
            signal: Some(9),
            oom_killed: true,
            not_ready: true,
            reason: Some("killed".into()),
            at: Timestamp::new(1_700_000_002, 0).unwrap(),
        };
        let full = ProcessInfo {
            pid: Some(7),
            port: Some(8080),
            address: Some("127.0.0.1:40001".into()),
            ready_at: Some(Timestamp::new(1_700_000_001, 0).unwrap()),
            exit: Some(exit.clone()),
            restarts: 4,
            ..plain.clone()
        };
        let by_itself = ProcessExit {
            code: Some(0),
            signal: None,
            oom_killed: false,
            not_ready: false,
            reason: None,
            at: Timestamp::UNIX_EPOCH,
        };
        for sent in [
            plain.clone(),
            full.clone(),
            ProcessInfo {
                status: ProcessStatus::Running,
                ..full.clone()
            },
            ProcessInfo {
                status: ProcessStatus::Exited,
                exit: Some(by_itself),
                ..full
            },
        ] {
            assert_eq!(
                ProcessInfo::try_from(v1::Process::from(sent.clone())).unwrap(),
                sent
            );
        }
    }

    #[test]
    fn wait_condition_survives_the_wire() {
        let (session, process) = (
            SessionId::new("box").unwrap(),
            ProcessId::new("p1").unwrap(),
        );
        for wait_for in [WaitFor::Ready, WaitFor::Exited] {
            let received = v1::WaitProcessRequest::new(&session, &process, wait_for)
                .unpack()
                .unwrap();
            assert_eq!(received, (session.clone(), process.clone(), wait_for));
        }
    }

    #[test]
    fn invalid_launch_names_the_field() {
        let good = || v1::LaunchProcessRequest {
            session_id: "box".into(),
            argv: vec!["server".into()],
            expose_port: Some(80),
            ..Default::default()
        };
        let ready = |probe: Probe| v1::LaunchProcessRequest {
            ready: v1::Readiness {
                probe: Some(probe),
                ..Default::default()
            }
            .into(),
            ..good()
        };
        good().unpack().unwrap();
        for (wire, field) in [
            (
                v1::LaunchProcessRequest {
                    session_id: "a/b".into(),
                    ..good()
                },
                "session_id",
            ),
            (
                v1::LaunchProcessRequest {
                    argv: vec![],
                    ..good()
                },
                "argv",
            ),
            (
                v1::LaunchProcessRequest {
                    expose_port: Some(0),
                    ..good()
                },
                "expose_port",
            ),
            (
                v1::LaunchProcessRequest {
                    expose_port: Some(65536),
                    ..good()
                },
                "expose_port",
            ),
            (
                v1::LaunchProcessRequest {
                    user: "a:b".into(),
                    ..good()
                },
                "user",
            ),
            (
                ready(
                    v1::TcpProbe {
                        port: Some(70_000),
                        ..Default::default()
                    }
                    .into(),
                ),
                "ready.port",
            ),
            (
                ready(
                    v1::HttpProbe {
                        path: "health".into(),
                        ..Default::default()
                    }
                    .into(),
                ),
                "ready.path",
            ),
            (ready(v1::LogProbe::default().into()), "ready.text"),
            (
                v1::LaunchProcessRequest {
                    ready_timeout: pack_duration(Duration::ZERO),
                    ..good()
                },
                "ready_timeout",
            ),
        ] {
            let error = wire.unpack().unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.hint().is_some(), "{error}");
        }
    }
}
