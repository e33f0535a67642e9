//! Progress of long operations, drawn on a terminal and nowhere else.

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two updates of a line that only shows the elapsed time.
const TICK: Duration = Duration::from_millis(100);
/// Operations that finish sooner draw nothing: a line that only flashes is noise.
const DRAW_DELAY: Duration = Duration::from_millis(300);

const UNKNOWN_TOTAL: &str = "{prefix} {binary_bytes}, {binary_bytes_per_sec}";
const KNOWN_TOTAL: &str = "{prefix} {binary_bytes}/{binary_total_bytes} {percent}% [{bar:24}] {binary_bytes_per_sec}, {eta} left";
const TEXT: &str = "{prefix} {msg}";

/// One line on stderr. Clones update the same line; it is cleared when the last one is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Arc<Line>);

#[derive(Debug)]
struct Line {
    bar: ProgressBar,
    visible: AtomicBool,
}

impl Progress {
    /// Counts bytes without a known end. Draws nothing when stderr is not a terminal.
    pub(crate) fn new(what: &'static str) -> Self {
        Self::start(ProgressBar::no_length(), what, UNKNOWN_TOTAL)
    }

    /// Counts bytes up to `total`, with percentage, rate and time left.
    pub(crate) fn of(what: &'static str, total: u64) -> Self {
        Self::start(ProgressBar::new(total), what, KNOWN_TOTAL)
    }

    /// Shows texts of the caller instead of a byte count.
    pub(crate) fn text(what: &'static str) -> Self {
        Self::start(ProgressBar::no_length(), what, TEXT)
    }

    fn start(bar: ProgressBar, what: &'static str, template: &str) -> Self {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        bar.set_prefix(what);
        bar.set_style(style(template));
        Self(Arc::new(Line {
            bar,
            visible: AtomicBool::new(false),
        }))
    }

    /// Adds bytes that were transferred.
    pub(crate) fn add(&self, bytes: usize) {
        self.0.appear();
        self.0.bar.inc(bytes as u64);
    }

    /// Replaces the text of the line.
    pub(crate) fn show(&self, text: impl Into<String>) {
        self.0.appear();
        self.0.bar.set_style(style(TEXT));
        self.0.bar.set_message(text.into());
    }

    /// Sets the bytes transferred so far and the total.
    pub(crate) fn set(&self, bytes: u64, total: u64) {
        self.0.appear();
        self.0.bar.set_style(style(KNOWN_TOTAL));
        self.0.bar.set_length(total);
        self.0.bar.set_position(bytes);
    }

    /// Shows the elapsed time of an operation that does not report its progress.
    pub(crate) async fn during<T>(self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(TICK) => {
                    self.show(format!("{:.1} s", self.0.bar.elapsed().as_secs_f64()));
                }
            }
        }
    }

    /// Counts the bytes that are read through the result.
    pub(crate) fn wrap<R: Read>(self, inner: R) -> Counted<R> {
        Counted {
            inner,
            progress: self,
        }
    }
}

/// Returns the style for one of the templates above.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

impl Line {
    /// Starts drawing once the operation has lasted longer than [`DRAW_DELAY`].
    fn appear(&self) {
        if self.bar.elapsed() > DRAW_DELAY && !self.visible.swap(true, Ordering::Relaxed) {
            // Hidden by itself when stderr is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A reader whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    inner: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.progress.add(read);
        Ok(read)
    }
}
