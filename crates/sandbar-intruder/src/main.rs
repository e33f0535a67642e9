//! The malicious guest of the escape suite: runs inside a box as its root user and tries to get
//! out, one way at a time.
//!
//! `sandbar-intruder list` prints every attempt: name, family and description, separated by
//! tabs. `sandbar-intruder NAME [FACT=VALUE]…` performs one and prints one line:
//! `held: …` (exit code 0), `ESCAPED: …` (1) or `inconclusive: …` (2). Facts tell an attempt what
//! there is to reach on the host; see [`facts`].
//!
//! Invariant: an attempt changes nothing on the host even when it succeeds, as real root outside of
//! any box. Files are opened for writing and not written; calls that would act are given arguments
//! they refuse only after they have asked for permission; mounts are made in a namespace that ends
//! with the attempt; what is made is made in a fresh directory or given by name as a fact.

mod attempt;
mod call;
mod child;
mod facts;
mod families;
mod privileges;
mod scratch;
mod verdict;
mod walk;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use attempt::Attempt;
use facts::Facts;
use verdict::Inconclusive;

fn main() -> ExitCode {
    // First, because later descriptors are our own.
    let inherited = facts::open_descriptors();
    let mut arguments = env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let (line, code) = match command.as_str() {
        "list" => (list(), 0),
        privileges::REPORT => (privileges::report(), 0),
        name => match families::find(name) {
            Some(attempt) => perform(attempt, arguments, inherited),
            None => (
                format!(
                    "inconclusive: attempt `{name}` does not exist; see `sandbar-intruder list`"
                ),
                2,
            ),
        },
    };
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(2),
    }
}

fn list() -> String {
    let lines = families::ALL.iter().flat_map(|family| {
        family
            .attempts
            .iter()
            .map(|attempt| format!("{}\t{}\t{}", attempt.name, family.name, attempt.description))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn perform(
    attempt: &Attempt,
    arguments: impl Iterator<Item = String>,
    inherited: Vec<i32>,
) -> (String, u8) {
    let outcome = Facts::parse(arguments, inherited).and_then(|facts| attempt.perform(&facts));
    match outcome {
        Ok(verdict) => (verdict.to_string(), verdict.exit_code()),
        Err(Inconclusive(why)) => (format!("inconclusive: {}", verdict::one_line(&why)), 2),
    }
}
