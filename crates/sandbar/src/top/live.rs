//! The full-screen view.

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
    sample::{Connected, FIRST_INTERVAL, Observed, Sample, fetch},
    view::{Action, View},
};
use crate::{
    client::connection::ConnectionOptions,
    failure::{Failure, Outcome, describe, exit},
    terminal::{
        Input, Interrupts, Terminal,
        screen::{PanicMessage, Screen, keys},
    },
    view::brief,
};

/// A running query.
type Query = Pin<Box<dyn Future<Output = Result<(Connected, Sample)>>>>;

/// Shows sessions until the user quits. A host that cannot be reached at first is an error; one
/// that goes away later is retried.
pub(crate) async fn watch(
    terminal: &Terminal,
    connection: &ConnectionOptions,
    interval: Duration,
    sort: Column,
) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let mut sizes = terminal.sizes()?;
    let (connected, observed) = Observed::begin(connection).await?;
    let _message = PanicMessage::keep();
    let mut input =
        Input::open().map_err(|error| Error::io("could not read the keyboard", error))?;
    let mut screen = Screen::enter(terminal, io::stdout())?;
    let mut watch = Watch {
        connection: connection.clone(),
        interval,
        connected: Some(connected),
        observed,
        view: View::new(sort),
        query: None,
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
                        Action::Nothing => {}
                        Action::Quit => return Ok(ExitCode::SUCCESS),
                        Action::Redraw => screen.forget(),
                        Action::Refresh => watch.refresh(),
                        Action::Suspend => {
                            screen.suspend();
                            // Returns after SIGCONT.
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

/// State of the refresh loop.
struct Watch {
    connection: ConnectionOptions,
    interval: Duration,
    /// `None` while there is no connection, and while it is in use.
    connected: Option<Connected>,
    observed: Observed,
    view: View,
    query: Option<Query>,
    /// Time of the next query.
    next: Instant,
    silent_since: Option<Instant>,
}

impl Watch {
    /// Waits for the next sample. The query continues if this future is dropped.
    async fn answer(&mut self) -> Result<(Connected, Sample)> {
        if self.query.is_none() {
            tokio::time::sleep_until(self.next.into()).await;
        }
        let (connection, connected, details) = (&self.connection, &mut self.connected, &self.view);
        let start = || -> Query {
            Box::pin(fetch(
                connection.clone(),
                connected.take(),
                details.details().cloned(),
            ))
        };
        let answer = self.query.get_or_insert_with(start).await;
        self.query = None;
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
                // `Unavailable` adds nothing to "no answer".
                let why = match error.code() {
                    ErrorCode::Unavailable => String::new(),
                    _ => format!(" ({})", describe(&error)),
                };
                self.view.trouble = Some(format!(
                    "no answer from {url} for {silent}; trying again{why}"
                ));
            }
        }
    }

    /// Queries the host now; a running query is dropped.
    fn refresh(&mut self) {
        self.query = None;
        self.next = Instant::now();
    }
}
