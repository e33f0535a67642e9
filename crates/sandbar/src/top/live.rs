//! The view that stays on the screen.

use std::{
    future::Future,
    io,
    pin::Pin,
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_current_process_group};
use sandbar_core::{Error, ErrorCode, Result};

use super::{
    draw::{list_rows, rows},
    entry::Column,
    sample::{Connected, FIRST_INTERVAL, Observed, Sample, look},
    view::{View, Wish},
};
use crate::{
    failure::{Failure, Outcome, describe, exit},
    input::Input,
    interrupt::Interrupts,
    screen::{PanicMessage, Screen, keys},
    terminal::Terminal,
    view::brief,
};

/// An answer on its way.
type Looking = Pin<Box<dyn Future<Output = Result<(Connected, Sample)>>>>;

/// Shows sessions until somebody leaves. A host that cannot be reached at first is an error; one that goes away later is
/// waited for.
pub(crate) async fn watch(terminal: &Terminal, url: Option<String>, interval: Duration, sort: Column) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let mut sizes = terminal.sizes()?;
    let (connected, observed) = Observed::begin(url.clone()).await?;
    let _message = PanicMessage::keep();
    let mut input = Input::open().map_err(|error| Error::io("could not read the keyboard", error))?;
    let mut screen = Screen::enter(terminal, io::stdout())?;
    let mut watch = Watch {
        url,
        interval,
        connected: Some(connected),
        observed,
        view: View::new(sort),
        looking: None,
        next: Instant::now() + FIRST_INTERVAL,
        silent_since: None,
    };
    let mut size = terminal.size();
    loop {
        let frame = rows(&mut watch.view, &watch.observed, size);
        screen.draw(&frame, size).map_err(Failure::writing)?;
        tokio::select! {
            answer = watch.answer() => watch.take(answer),
            pressed = input.next() => {
                let Some(bytes) = pressed else { return Ok(ExitCode::SUCCESS) };
                for key in keys(&bytes) {
                    match watch.view.press(key, &watch.observed, list_rows(size)) {
                        Wish::Nothing => {}
                        Wish::Leave => return Ok(ExitCode::SUCCESS),
                        Wish::Redraw => screen.forget(),
                        Wish::Refresh => watch.look_again(),
                        Wish::Suspend => {
                            screen.suspend();
                            // Returns when somebody lets us go on.
                            let _ = kill_current_process_group(Signal::TSTP);
                            screen.resume()?;
                            size = terminal.size();
                        }
                    }
                }
            }
            changed = sizes.next() => size = changed,
            signal = interrupts.next() => return Ok(ExitCode::from(exit::signalled(signal))),
        }
    }
}

struct Watch {
    url: Option<String>,
    interval: Duration,
    /// `None` while there is no connection, and while it is in use.
    connected: Option<Connected>,
    observed: Observed,
    view: View,
    looking: Option<Looking>,
    /// When to look next.
    next: Instant,
    silent_since: Option<Instant>,
}

impl Watch {
    /// The next answer. It is not lost when this is dropped before it is there.
    async fn answer(&mut self) -> Result<(Connected, Sample)> {
        if self.looking.is_none() {
            tokio::time::sleep_until(self.next.into()).await;
        }
        let (url, connected, details) = (&self.url, &mut self.connected, &self.view);
        let start = || -> Looking { Box::pin(look(url.clone(), connected.take(), details.details().cloned())) };
        let answer = self.looking.get_or_insert_with(start).await;
        self.looking = None;
        answer
    }

    fn take(&mut self, answer: Result<(Connected, Sample)>) {
        self.next = Instant::now() + self.interval;
        match answer {
            Ok((connected, sample)) => {
                self.observed.take(&connected, sample);
                self.connected = Some(connected);
                self.silent_since = None;
                self.view.trouble = None;
            }
            Err(error) => {
                let since = *self.silent_since.get_or_insert_with(Instant::now);
                let silent = brief(since.elapsed());
                let url = &self.observed.url;
                // That nobody is there says it all; anything else is worth telling.
                let why = match error.code() {
                    ErrorCode::Unavailable => String::new(),
                    _ => format!(" ({})", describe(&error)),
                };
                self.view.trouble = Some(format!("no answer from {url} for {silent}; trying again{why}"));
            }
        }
    }

    /// Looks at once instead of in a while; one look that is under way is given up.
    fn look_again(&mut self) {
        self.looking = None;
        self.next = Instant::now();
    }
}
