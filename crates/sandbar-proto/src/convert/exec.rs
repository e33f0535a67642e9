//! `Exec` messages.

use sandbar_core::{
    CommandEnd, Error, ExecSpec, ExitStatus, Result, SessionId, StdinMode, TerminalSize,
};

use super::scalar::{pack_duration, unpack_duration};
use crate::v1;

impl v1::ExecStart {
    pub fn new(session: &SessionId, spec: ExecSpec) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            argv: spec.argv,
            env: spec.env,
            cwd: spec.cwd.unwrap_or_default(),
            stdin: spec.stdin == StdinMode::Piped,
            resources: v1::Resources::from(&spec.resources).into(),
            terminal: spec.terminal.map(v1::TerminalSize::from).into(),
            user: spec.user.unwrap_or_default(),
            ..Default::default()
        }
    }

    /// Returns the session and the command.
    pub fn unpack(self) -> Result<(SessionId, ExecSpec)> {
        let session = SessionId::new(self.session_id)?;
        let spec = ExecSpec {
            argv: self.argv,
            env: self.env,
            cwd: if self.cwd.is_empty() {
                None
            } else {
                Some(self.cwd)
            },
            user: if self.user.is_empty() {
                None
            } else {
                Some(self.user)
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
            resources: self
                .resources
                .into_option()
                .unwrap_or_default()
                .try_into()?,
            end: CommandEnd::default(),
        };
        spec.validate()?;
        Ok((session, spec))
    }
}

impl From<TerminalSize> for v1::TerminalSize {
    fn from(size: TerminalSize) -> Self {
        Self {
            rows: size.rows.into(),
            columns: size.columns.into(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::TerminalSize> for TerminalSize {
    type Error = Error;

    fn try_from(wire: v1::TerminalSize) -> Result<Self> {
        let side = |field, value: u32| {
            u16::try_from(value)
                .ok()
                .filter(|&side| side > 0)
                .ok_or_else(|| {
                    Error::invalid(field, format!("terminal size {value} is out of range"))
                        .with_hint("use a number between 1 and 65535")
                })
        };
        Ok(Self {
            rows: side("terminal.rows", wire.rows)?,
            columns: side("terminal.columns", wire.columns)?,
        })
    }
}

impl From<ExitStatus> for v1::ExecExited {
    fn from(status: ExitStatus) -> Self {
        Self {
            code: status.code,
            signal: status.signal,
            timed_out: status.timed_out,
            truncated: status.truncated,
            oom_killed: status.oom_killed,
            duration: pack_duration(status.duration),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::ExecExited> for ExitStatus {
    type Error = Error;

    fn try_from(wire: v1::ExecExited) -> Result<Self> {
        Ok(Self {
            code: wire.code,
            signal: wire.signal,
            timed_out: wire.timed_out,
            truncated: wire.truncated,
            oom_killed: wire.oom_killed,
            duration: unpack_duration("duration", wire.duration)?.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbar_core::Resources;

    use super::*;

    #[test]
    fn command_and_exit_survive_the_wire() {
        let session = SessionId::new("box").unwrap();
        let spec = ExecSpec {
            argv: vec!["sh".into(), "-c".into(), "exit 3".into()],
            env: [("A".to_owned(), "b".to_owned())].into(),
            cwd: Some("/tmp".into()),
            user: Some("user".into()),
            stdin: StdinMode::Piped,
            terminal: Some(TerminalSize {
                rows: 24,
                columns: 80,
            }),
            resources: Resources {
                wall_time: Some(Duration::from_secs(3)),
                ..Resources::default()
            },
            end: CommandEnd::default(),
        };
        assert_eq!(
            v1::ExecStart::new(&session, spec.clone()).unpack().unwrap(),
            (session, spec)
        );
        for status in [
            ExitStatus {
                code: Some(0),
                duration: Duration::from_nanos(1),
                ..ExitStatus::default()
            },
            ExitStatus {
                signal: Some(9),
                timed_out: true,
                truncated: true,
                ..ExitStatus::default()
            },
        ] {
            assert_eq!(
                ExitStatus::try_from(v1::ExecExited::from(status)).unwrap(),
                status
            );
        }
    }

    #[test]
    fn command_without_a_program_is_rejected() {
        let wire = v1::ExecStart {
            session_id: "box".into(),
            ..Default::default()
        };
        assert_eq!(wire.unpack().unwrap_err().field(), Some("argv"));
    }
}
