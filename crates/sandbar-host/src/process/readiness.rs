//! Finding out whether a process is ready.

use std::{sync::Arc, time::Duration};

use sandbar_core::{LogStream, Readiness};
use sandbar_runtime::Sandbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Clock, connection::connect};

/// The shortest and the longest wait between two looks.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than the first line of any answer we accept.
const LONGEST_STATUS: u64 = 64;

/// A server that is looked at until it answers.
#[derive(Debug)]
pub(super) struct Probe {
    port: u16,
    /// `None`: a connection is enough.
    path: Option<String>,
}

impl Probe {
    /// `None`: there is no server to look at.
    pub(super) fn of(readiness: &Readiness, exposed: Option<u16>) -> Option<Self> {
        let path = match readiness {
            Readiness::Http { path, .. } => Some(path.clone()),
            _ => None,
        };
        Some(Self { port: readiness.port(exposed)?, path })
    }

    /// Comes back when the server has answered well.
    pub(super) async fn passes(&self, sandbox: &Arc<dyn Sandbox>, clock: &Clock) {
        let mut wait = SHORTEST;
        loop {
            clock.goes().await;
            if tokio::time::timeout(PATIENCE, self.look(sandbox)).await == Ok(Some(())) {
                return;
            }
            clock.sleep(wait).await;
            wait = (wait * 2).min(LONGEST);
        }
    }

    async fn look(&self, sandbox: &Arc<dyn Sandbox>) -> Option<()> {
        let mut stream = connect(Arc::clone(sandbox), self.port, PATIENCE).await.ok()?;
        let Some(path) = &self.path else { return Some(()) };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nUser-Agent: sandbar\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        let mut limited = stream.take(LONGEST_STATUS);
        while !answer.contains(&b'\n') && limited.read_buf(&mut answer).await.ok()? > 0 {}
        is_good(&answer).then_some(())
    }
}

/// Whether an answer begins with a status of 2xx or 3xx.
fn is_good(answer: &[u8]) -> bool {
    let mut words = answer.split(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    let is_http = words.next().is_some_and(|version| version.starts_with(b"HTTP/1."));
    is_http && matches!(words.next(), Some([b'2' | b'3', b'0'..=b'9', b'0'..=b'9']))
}

/// Looks for a text in what is written, also where it is written in pieces.
#[derive(Debug)]
pub(super) struct LogMatcher {
    text: Vec<u8>,
    /// The last bytes of stdout and stderr, in which the text may have begun.
    begun: [Vec<u8>; 2],
}

impl LogMatcher {
    pub(super) fn of(readiness: &Readiness) -> Option<Self> {
        match readiness {
            Readiness::Log { text } => Some(Self { text: text.clone().into_bytes(), begun: [Vec::new(), Vec::new()] }),
            _ => None,
        }
    }

    /// Whether the text is there now.
    pub(super) fn sees(&mut self, stream: LogStream, bytes: &[u8]) -> bool {
        let begun = &mut self.begun[usize::from(stream == LogStream::Stderr)];
        begun.extend_from_slice(bytes);
        if begun.windows(self.text.len()).any(|window| window == self.text) {
            return true;
        }
        begun.drain(..begun.len().saturating_sub(self.text.len() - 1));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_good_answers_pass() {
        for good in ["HTTP/1.1 200 OK\r\n", "HTTP/1.0 204\r\n", "HTTP/1.1 302 Found\r\nLocation: /"] {
            assert!(is_good(good.as_bytes()), "{good:?}");
        }
        for bad in ["", "HTTP/1.1 500 No\r\n", "HTTP/1.1 404", "HTTP/1.1 20", "SSH-2.0 200", "HTTP/1.1 2000 "] {
            assert!(!is_good(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn a_text_in_pieces_is_found_and_streams_are_not_mixed() {
        let mut matcher = LogMatcher::of(&Readiness::Log { text: "ready".into() }).unwrap();
        assert!(!matcher.sees(LogStream::Stdout, b"not re"));
        assert!(!matcher.sees(LogStream::Stderr, b"ady"));
        assert!(!matcher.sees(LogStream::Stdout, b""));
        assert!(matcher.sees(LogStream::Stdout, b"ady now"));
    }
}
