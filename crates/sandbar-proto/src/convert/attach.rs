//! `AttachProcess` messages.

use sandbar_core::{AttachEvent, ProcessId, Replay, Result, SessionId};

use super::{
    log::unpack_stream,
    scalar::{known, missing},
};
use crate::v1::{self, attach_process_response::Event};

impl v1::AttachStart {
    pub fn new(session: &SessionId, process: &ProcessId, replay: Replay) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            process_id: process.as_str().to_owned(),
            replay: match replay {
                Replay::None => v1::Replay::None,
                Replay::Tail => v1::Replay::Tail,
                Replay::All => v1::Replay::All,
            }
            .into(),
            ..Default::default()
        }
    }

    /// Returns the process, and the output to replay.
    pub fn unpack(self) -> Result<(SessionId, ProcessId, Replay)> {
        let replay = match known("replay", self.replay)? {
            v1::Replay::REPLAY_UNSPECIFIED | v1::Replay::REPLAY_NONE => Replay::None,
            v1::Replay::REPLAY_TAIL => Replay::Tail,
            v1::Replay::REPLAY_ALL => Replay::All,
        };
        Ok((
            SessionId::new(self.session_id)?,
            ProcessId::new(self.process_id)?,
            replay,
        ))
    }
}

impl From<AttachEvent> for Event {
    fn from(event: AttachEvent) -> Self {
        match event {
            AttachEvent::Stdout(bytes) => Self::Stdout(bytes),
            AttachEvent::Stderr(bytes) => Self::Stderr(bytes),
            AttachEvent::Missed { stream, bytes } => v1::OutputMissed {
                stream: v1::LogStream::from(stream).into(),
                bytes,
                ..Default::default()
            }
            .into(),
            AttachEvent::Exited(exit) => v1::ProcessExit::from(exit).into(),
        }
    }
}

/// Returns the process event of a message; `None` for messages about the call itself.
pub fn unpack_attach_event(event: Event) -> Result<Option<AttachEvent>> {
    Ok(Some(match event {
        Event::Stdout(bytes) => AttachEvent::Stdout(bytes),
        Event::Stderr(bytes) => AttachEvent::Stderr(bytes),
        Event::Missed(missed) => AttachEvent::Missed {
            stream: unpack_stream(known("stream", missed.stream)?)
                .ok_or_else(|| missing("stream"))?,
            bytes: missed.bytes,
        },
        Event::Exited(exit) => AttachEvent::Exited((*exit).try_into()?),
        Event::Attached(_) | Event::StdinTaken(_) => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sandbar_core::{LogStream, ProcessExit};

    use super::*;

    #[test]
    fn attach_request_and_event_survive_the_wire() {
        let (session, process) = (
            SessionId::new("box").unwrap(),
            ProcessId::new("p1").unwrap(),
        );
        for replay in [Replay::None, Replay::Tail, Replay::All] {
            let received = v1::AttachStart::new(&session, &process, replay)
                .unpack()
                .unwrap();
            assert_eq!(received, (session.clone(), process.clone(), replay));
        }
        let exit = ProcessExit {
            code: Some(3),
            signal: None,
            oom_killed: false,
            not_ready: false,
            reason: Some("killed".into()),
            at: Timestamp::UNIX_EPOCH,
        };
        for event in [
            AttachEvent::Stdout("a".into()),
            AttachEvent::Stderr("b".into()),
            AttachEvent::Missed {
                stream: LogStream::Stderr,
                bytes: 7,
            },
            AttachEvent::Exited(exit),
        ] {
            assert_eq!(
                unpack_attach_event(event.clone().into()).unwrap(),
                Some(event)
            );
        }
    }
}
