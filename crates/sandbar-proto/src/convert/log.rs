//! Process log messages.

use sandbar_core::{Error, LogChunk, LogQuery, LogStream, ProcessId, Result, SessionId};

use super::scalar::{known, missing};
use crate::v1;

impl From<LogStream> for v1::LogStream {
    fn from(stream: LogStream) -> Self {
        match stream {
            LogStream::Stdout => Self::Stdout,
            LogStream::Stderr => Self::Stderr,
        }
    }
}

/// Maps `None` to the unspecified stream.
pub(super) fn unpack_stream(stream: v1::LogStream) -> Option<LogStream> {
    match stream {
        v1::LogStream::LOG_STREAM_UNSPECIFIED => None,
        v1::LogStream::LOG_STREAM_STDOUT => Some(LogStream::Stdout),
        v1::LogStream::LOG_STREAM_STDERR => Some(LogStream::Stderr),
    }
}

impl v1::ProcessLogsRequest {
    pub fn new(session: &SessionId, process: &ProcessId, query: LogQuery) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            process_id: process.as_str().to_owned(),
            stream: query
                .stream
                .map_or(v1::LogStream::Unspecified, Into::into)
                .into(),
            follow: query.follow,
            tail: query.tail,
            ..Default::default()
        }
    }

    /// Returns session, process and query.
    pub fn unpack(self) -> Result<(SessionId, ProcessId, LogQuery)> {
        let query = LogQuery {
            stream: unpack_stream(known("stream", self.stream)?),
            follow: self.follow,
            tail: self.tail,
        };
        Ok((
            SessionId::new(self.session_id)?,
            ProcessId::new(self.process_id)?,
            query,
        ))
    }
}

impl From<LogChunk> for v1::ProcessLogsResponse {
    fn from(chunk: LogChunk) -> Self {
        Self {
            stream: v1::LogStream::from(chunk.stream).into(),
            offset: chunk.offset,
            missed: chunk.missed,
            data: chunk.bytes,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::ProcessLogsResponse> for LogChunk {
    type Error = Error;

    fn try_from(wire: v1::ProcessLogsResponse) -> Result<Self> {
        Ok(Self {
            stream: unpack_stream(known("stream", wire.stream)?)
                .ok_or_else(|| missing("stream"))?,
            offset: wire.offset,
            missed: wire.missed,
            bytes: wire.data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_query_and_chunk_survive_the_wire() {
        let (session, process) = (
            SessionId::new("box").unwrap(),
            ProcessId::new("p1").unwrap(),
        );
        for query in [
            LogQuery::default(),
            LogQuery {
                stream: Some(LogStream::Stderr),
                follow: true,
                tail: Some(0),
            },
            LogQuery {
                stream: Some(LogStream::Stdout),
                follow: false,
                tail: Some(u64::MAX),
            },
        ] {
            let received = v1::ProcessLogsRequest::new(&session, &process, query)
                .unpack()
                .unwrap();
            assert_eq!(received, (session.clone(), process.clone(), query));
        }
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let chunk = LogChunk {
                stream,
                offset: 1 << 40,
                missed: 7,
                bytes: vec![0, 255, b'\n'].into(),
            };
            assert_eq!(
                LogChunk::try_from(v1::ProcessLogsResponse::from(chunk.clone())).unwrap(),
                chunk
            );
        }
    }
}
