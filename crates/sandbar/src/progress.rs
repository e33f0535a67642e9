//! How far a long copy is, on a terminal and nowhere else.

use std::{
    io::{self, IsTerminal, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sandbar_core::ByteCount;

/// How often a person wants to see a new number.
const INTERVAL: u64 = 100;

/// One line on stderr that counts. Clones count together; the line is gone when the last one is.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Option<Arc<Line>>);

#[derive(Debug)]
struct Line {
    what: &'static str,
    started: Instant,
    bytes: AtomicU64,
    /// Milliseconds since the start when the line was last drawn.
    drawn: AtomicU64,
    visible: AtomicBool,
}

impl Progress {
    /// Counts for people; silent when stderr is no terminal.
    pub(crate) fn new(what: &'static str) -> Self {
        if !io::stderr().is_terminal() {
            return Self::hidden();
        }
        let (bytes, drawn, visible) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self(Some(Arc::new(Line { what, started: Instant::now(), bytes, drawn, visible })))
    }

    pub(crate) const fn hidden() -> Self {
        Self(None)
    }

    /// Adds bytes that went through.
    pub(crate) fn add(&self, bytes: usize) {
        let Some(line) = &self.0 else { return };
        let total = line.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        line.draw(&ByteCount(total).to_string());
    }

    /// Shows a text of the caller's own.
    pub(crate) fn show(&self, text: &str) {
        if let Some(line) = &self.0 {
            line.draw(text);
        }
    }

    /// Shows how long something takes that cannot tell how far it is.
    pub(crate) async fn during<T>(self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let Some(line) = &self.0 else { return work.await };
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(Duration::from_millis(INTERVAL)) => {
                    line.draw(&format!("{:.1} s", line.started.elapsed().as_secs_f64()));
                }
            }
        }
    }

    /// Counts what is read through the result.
    pub(crate) fn wrap<R: Read>(self, inner: R) -> Counted<R> {
        Counted { inner, progress: self }
    }
}

impl Line {
    /// Work that ends at once shows nothing: a line that flashes helps nobody.
    fn draw(&self, text: &str) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.drawn.load(Ordering::Relaxed);
        let due = now >= last.saturating_add(INTERVAL)
            && self.started.elapsed() > Duration::from_millis(300)
            && self.drawn.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if due {
            self.visible.store(true, Ordering::Relaxed);
            let _ = write!(io::stderr().lock(), "\r\x1b[K{} {text}", self.what);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.visible.load(Ordering::Relaxed) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// A reader whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    inner: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.progress.add(read);
        Ok(read)
    }
}
