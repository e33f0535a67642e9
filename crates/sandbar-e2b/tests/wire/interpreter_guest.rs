//! The server of the code interpreter by itself, on loopback of this machine, with every Python there is.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Versions the server is to run with, where they are installed; `python3` is always tried.
const VERSIONS: [&str; 7] =
    ["python3.8", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"];

fn run(module: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interpreter_guest");
    let path = std::env::var_os("PATH").unwrap();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|directory: PathBuf| directory.join(name).exists());
    for python in VERSIONS.iter().filter(is_there).chain(&["python3"]) {
        // A name that leads nowhere, as version managers have them, is no Python.
        if !Command::new(python).args(["-c", ""]).output().is_ok_and(|output| output.status.success()) {
            continue;
        }
        let output = Command::new(python).args(["-B", "-m", "unittest", module]).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{python}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn python_runs_as_in_a_notebook() {
    run("test_python");
}

#[test]
fn javascript_runs_as_in_a_notebook() {
    run("test_javascript");
}

#[test]
fn the_server_keeps_contexts_and_survives_trouble() {
    run("test_server");
}

#[test]
fn figures_are_told_as_charts() {
    run("test_charts");
}
