//! `e2b` and `e2b-code-interpreter` from PyPI.

use std::process::Command;

use sandbar_testing::{Registry, installed};

use crate::host::{Mode, drive, file};

fn run(version: &str, mode: Mode, style: &str) {
    let Some(python) = installed(&format!("e2b/python-{version}/bin/python3")) else {
        return Registry::PyPi.report_out_of_reach(&format!("e2b for Python, {version} ({style}, {mode:?})"));
    };
    let mut program = Command::new(python);
    program.arg(file("python/run.py")).args(["--style", style]).env("PYTHONDONTWRITEBYTECODE", "1");
    drive(mode, program);
}

#[test]
fn the_newest_python_sdk_does_everything() {
    run("newest", Mode::Plain, "sync");
}

#[test]
fn the_newest_python_sdk_does_everything_asynchronously() {
    run("newest", Mode::Plain, "async");
}

#[test]
fn the_newest_python_sdk_does_everything_by_domain() {
    run("newest", Mode::Domain, "sync");
}

#[test]
fn the_newest_python_sdk_does_everything_by_domain_asynchronously() {
    run("newest", Mode::Domain, "async");
}

#[test]
fn python_sdk_2_45_does_everything() {
    run("2.45", Mode::Plain, "sync");
}

#[test]
fn python_sdk_2_45_does_everything_by_domain_asynchronously() {
    run("2.45", Mode::Domain, "async");
}

#[test]
fn python_sdk_2_30_does_everything() {
    run("2.30", Mode::Plain, "sync");
}

#[test]
fn python_sdk_2_30_does_everything_asynchronously() {
    run("2.30", Mode::Plain, "async");
}

#[test]
fn python_sdk_2_10_does_everything() {
    run("2.10", Mode::Plain, "sync");
}

#[test]
fn python_sdk_2_10_does_everything_asynchronously() {
    run("2.10", Mode::Plain, "async");
}
