//! Secrets, read from stdin or prompted for at the terminal without echo.

use std::{fmt::Display, io};

use rustix::termios::isatty;
use sandbar_core::Error;

use crate::{
    failure::{Failure, Outcome},
    terminal::{Input, Interrupts, Terminal, output},
};

/// Limit on the size of a secret; the rest of a larger input is not read.
const MAX_SECRET_BYTES: usize = 64 << 10;

/// Reads a secret: at a terminal with `prompt` and without echo, otherwise from stdin to its end. A
/// final line break is removed. `None` when interrupted.
pub(crate) async fn read_secret(verb: &str, prompt: impl Display) -> Outcome<Option<String>> {
    if isatty(io::stdin()) {
        ask(verb, prompt).await
    } else {
        read(|_| false).await.map(Some)
    }
}

async fn ask(verb: &str, prompt: impl Display) -> Outcome<Option<String>> {
    let terminal = Terminal::of_stdin(verb, "give the value on stdin")?;
    let mut interrupts = Interrupts::listen()?;
    let hidden = terminal.hidden()?;
    output::prompt(prompt);
    let answer = tokio::select! {
        value = read(|so_far| so_far.ends_with(b"\n")) => Some(value),
        _ = interrupts.next() => None,
    };
    drop(hidden);
    // The line break that ended it was not echoed either.
    output::say("");
    answer.transpose()
}

/// Reads stdin to its end, or until `is_enough`.
async fn read(is_enough: impl Fn(&[u8]) -> bool) -> Outcome<String> {
    let mut input = Input::open().map_err(|error| Error::io("could not read stdin", error))?;
    let mut value = Vec::new();
    while let Some(piece) = input.next().await {
        value.extend_from_slice(&piece);
        if is_enough(&value) || value.len() > MAX_SECRET_BYTES {
            break;
        }
    }
    let text = String::from_utf8(value).map_err(|_| {
        let error = Error::invalid("value", "the secret is not UTF-8");
        Failure::Usage(
            error.with_hint("give text; encode anything else, for example with `base64`"),
        )
    })?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
