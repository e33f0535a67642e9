//! The driver: `sandbar-fuzz list`, `sandbar-fuzz run SECONDS [TARGET...]`, `sandbar-fuzz try TARGET FILE...`.
//!
//! Each target runs in a process of its own, which may panic, overflow its stack, eat its memory or hang: whoever
//! started it sees that, keeps the input, and says so.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a tool for the terminal")]

mod corpus;
mod coverage;
mod looping;
mod supervise;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use sandbar_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            for target in TARGETS {
                println!("{}", target.name);
            }
            ExitCode::SUCCESS
        }
        ["run", seconds, names @ ..] => run(seconds, names),
        ["try", name, files @ ..] => try_files(name, files),
        [looping::COMMAND, name, seconds, directory, seed] => looping::run(find(name), seconds, directory, seed),
        _ => {
            eprintln!("usage: sandbar-fuzz list | run SECONDS [TARGET...] | try TARGET FILE...");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs targets one after the other. Fails when one of them did.
fn run(seconds: &str, names: &[&str]) -> ExitCode {
    let Ok(time) = seconds.parse().map(Duration::from_secs) else {
        eprintln!("`{seconds}` is no number of seconds");
        return ExitCode::FAILURE;
    };
    let work = std::env::var_os("SANDBAR_FUZZ_DIR").map_or_else(|| PathBuf::from("/var/tmp/sandbar-fuzz"), Into::into);
    let mut is_clean = true;
    for target in TARGETS.iter().filter(|target| names.is_empty() || names.contains(&target.name)) {
        is_clean &= supervise::fuzz(target, time, &work);
    }
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs inputs once, in this process: for whoever looks for the reason of a finding.
fn try_files(name: &str, files: &[&str]) -> ExitCode {
    let Some(target) = find(name) else {
        eprintln!("there is no target `{name}`");
        return ExitCode::FAILURE;
    };
    for file in files {
        match std::fs::read(file) {
            Ok(bytes) => (target.run)(&bytes),
            Err(error) => eprintln!("could not read `{file}`: {error}"),
        }
    }
    ExitCode::SUCCESS
}
