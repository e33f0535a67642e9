//! Readiness of a process: probes of its port, and matches in its output.

use std::{sync::Arc, time::Duration};

use sandbar_core::{LogStream, Readiness};
use sandbar_runtime::Sandbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Clock, connection::connect};

/// Bounds of the wait between two probes, which doubles each time.
const MIN_PROBE_DELAY: Duration = Duration::from_millis(50);
const MAX_PROBE_DELAY: Duration = Duration::from_secs(1);

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes read of a response. The status line of a good one is shorter.
const MAX_STATUS_LINE_BYTES: u64 = 64;

/// A readiness probe, over TCP or HTTP.
#[derive(Debug)]
pub(super) struct Probe {
    port: u16,
    /// Path to request. `None`: an accepted connection suffices.
    path: Option<String>,
}

impl Probe {
    /// Returns the probe for `readiness`, if it needs one.
    pub(super) fn of(readiness: &Readiness, exposed: Option<u16>) -> Option<Self> {
        let path = match readiness {
            Readiness::Http { path, .. } => Some(path.clone()),
            _ => None,
        };
        Some(Self {
            port: readiness.port(exposed)?,
            path,
        })
    }

    /// Probes until the server answers with success.
    pub(super) async fn passes(&self, sandbox: &Arc<dyn Sandbox>, clock: &Clock) {
        let mut delay = MIN_PROBE_DELAY;
        loop {
            clock.runs().await;
            if tokio::time::timeout(PROBE_TIMEOUT, self.probe(sandbox)).await == Ok(Some(())) {
                return;
            }
            clock.sleep(delay).await;
            delay = (delay * 2).min(MAX_PROBE_DELAY);
        }
    }

    async fn probe(&self, sandbox: &Arc<dyn Sandbox>) -> Option<()> {
        let mut stream = connect(Arc::clone(sandbox), self.port, PROBE_TIMEOUT)
            .await
            .ok()?;
        let Some(path) = &self.path else {
            return Some(());
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nUser-Agent: sandbar\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        let mut limited = stream.take(MAX_STATUS_LINE_BYTES);
        while !answer.contains(&b'\n') && limited.read_buf(&mut answer).await.ok()? > 0 {}
        is_success(&answer).then_some(())
    }
}

/// Whether a response begins with a status of 2xx or 3xx.
fn is_success(answer: &[u8]) -> bool {
    let mut words = answer.split(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    let is_http = words
        .next()
        .is_some_and(|version| version.starts_with(b"HTTP/1."));
    is_http && matches!(words.next(), Some([b'2' | b'3', b'0'..=b'9', b'0'..=b'9']))
}

/// Searches the output for a text, also across writes.
#[derive(Debug)]
pub(super) struct LogMatcher {
    text: Vec<u8>,
    /// The last bytes of stdout and stderr, which may begin the text.
    tails: [Vec<u8>; 2],
}

impl LogMatcher {
    pub(super) fn of(readiness: &Readiness) -> Option<Self> {
        match readiness {
            Readiness::Log { text } => Some(Self {
                text: text.clone().into_bytes(),
                tails: [Vec::new(), Vec::new()],
            }),
            _ => None,
        }
    }

    /// Adds output; returns whether it completes the text.
    pub(super) fn matches(&mut self, stream: LogStream, bytes: &[u8]) -> bool {
        let tail = &mut self.tails[usize::from(stream == LogStream::Stderr)];
        tail.extend_from_slice(bytes);
        if tail
            .windows(self.text.len())
            .any(|window| window == self.text)
        {
            return true;
        }
        tail.drain(..tail.len().saturating_sub(self.text.len() - 1));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_2xx_and_3xx_responses_pass() {
        for good in [
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.0 204\r\n",
            "HTTP/1.1 302 Found\r\nLocation: /",
        ] {
            assert!(is_success(good.as_bytes()), "{good:?}");
        }
        for bad in [
            "",
            "HTTP/1.1 500 No\r\n",
            "HTTP/1.1 404",
            "HTTP/1.1 20",
            "SSH-2.0 200",
            "HTTP/1.1 2000 ",
        ] {
            assert!(!is_success(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn text_split_over_writes_matches_within_one_stream() {
        let mut matcher = LogMatcher::of(&Readiness::Log {
            text: "ready".into(),
        })
        .unwrap();
        assert!(!matcher.matches(LogStream::Stdout, b"not re"));
        assert!(!matcher.matches(LogStream::Stderr, b"ady"));
        assert!(!matcher.matches(LogStream::Stdout, b""));
        assert!(matcher.matches(LogStream::Stdout, b"ady now"));
    }
}
