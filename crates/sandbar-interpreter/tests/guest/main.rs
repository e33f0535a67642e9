//! Runs the guest server outside a sandbox, on loopback: with every installed Python at full test
//! scale, with `python3` alone otherwise.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::{path::Path, process::Command};

use sandbar_testing::{require_installed, require_node_modules};

/// Python versions the server supports; those that are not installed are left out.
const PYTHONS: [&str; 8] = [
    "python3",
    "python3.8",
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
];

fn run(module: &str) {
    let is_installed = |python: &str| {
        Command::new(python)
            .args(["-c", ""])
            .output()
            .is_ok_and(|ran| ran.status.success())
    };
    assert!(is_installed("python3"));
    let versions = usize::try_from(sandbar_testing::scaled(PYTHONS.len() as u64, 1)).unwrap();
    for python in PYTHONS
        .into_iter()
        .take(versions)
        .filter(|python| is_installed(python))
    {
        run_with(Path::new(python), module);
    }
}

fn run_with(python: &Path, module: &str) {
    finish(&mut Command::new(python), &[module]);
}

fn finish(python: &mut Command, modules: &[&str]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest");
    let output = python
        .args(["-B", "-m", "unittest"])
        .args(modules)
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{python:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs with a set of packages from setup: `oldest` is the matplotlib of Debian 12.
fn run_with_packages(packages: &str) {
    require_installed(&format!("charts/{packages}/.installed"));
    run_with(
        &require_installed(&format!("charts/{packages}/bin/python3")),
        "test_drawn",
    );
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
fn typescript_runs_as_in_a_notebook() {
    run("test_typescript");
}

#[test]
fn cells_run_with_a_node_that_strips_types_itself() {
    let modules = require_node_modules("node/node-24");
    let path = format!(
        "{}:{}",
        modules.join("node/bin").display(),
        std::env::var("PATH").unwrap()
    );
    finish(
        Command::new("python3").env("PATH", path),
        &["test_javascript", "test_typescript"],
    );
}

#[test]
fn r_runs_as_in_a_notebook() {
    // With one Python only: the language runtime is under test, and each start takes a second.
    run_with(Path::new("python3"), "test_r");
}

#[test]
fn java_runs_as_in_a_notebook() {
    // With one Python only: the language runtime is under test, and each start takes a second.
    run_with(Path::new("python3"), "test_java");
}

#[test]
fn server_keeps_contexts_and_survives_failures() {
    run("test_server");
}

#[test]
fn figures_become_charts() {
    run("test_charts");
}

#[test]
fn figures_of_debian_matplotlib_become_charts() {
    run_with_packages("oldest");
}

#[test]
fn figures_of_newest_matplotlib_become_charts() {
    run_with_packages("newest");
}
