//! `e2b` and `@e2b/code-interpreter` from npm.

use std::process::Command;

use sandbar_testing::{Registry, installed};

use crate::host::{Mode, drive, file};

fn run(version: &str, mode: Mode) {
    let directory =
        installed(&format!("e2b/js-{version}/.installed")).and_then(|marker| marker.parent().map(Into::into));
    let Some(directory): Option<std::path::PathBuf> = directory else {
        return Registry::Npm.report_out_of_reach(&format!("e2b for JavaScript, {version} ({mode:?})"));
    };
    let mut program = Command::new("node");
    program.arg(file("js/run.mjs")).arg(directory.join("node_modules"));
    drive(mode, program);
}

#[test]
fn the_newest_javascript_sdk_does_everything() {
    run("newest", Mode::Plain);
}

#[test]
fn the_newest_javascript_sdk_does_everything_by_domain() {
    run("newest", Mode::Domain);
}

#[test]
fn javascript_sdk_2_45_does_everything() {
    run("2.45", Mode::Plain);
}

#[test]
fn javascript_sdk_2_30_does_everything() {
    run("2.30", Mode::Plain);
}

#[test]
fn javascript_sdk_2_10_does_everything() {
    run("2.10", Mode::Plain);
}
