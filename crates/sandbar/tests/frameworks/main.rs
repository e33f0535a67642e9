//! Agent frameworks and tools from PyPI and npm run unmodified against a real host, with a scripted
//! model.
//!
//! The drivers are in `tests/frameworks`. A driver checks what its framework returns, prints one
//! line per check and fails with the first check that does. No driver can resolve a name outside of
//! the host's own domain.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

// `file` names files below `tests/e2b`.
#[path = "../e2b/host.rs"]
mod host;

use std::{path::PathBuf, process::Command};

use host::{Mode, drive, file};
use sandbar_testing::require_installed;
use tempfile::TempDir;

/// Settings that keep the frameworks from reporting usage and from looking for updates.
const QUIET: [(&str, &str); 8] = [
    ("AGNO_TELEMETRY", "false"),
    ("DO_NOT_TRACK", "1"),
    ("HF_HUB_OFFLINE", "1"),
    ("LANGSMITH_TRACING", "false"),
    ("MASTRA_TELEMETRY_DISABLED", "1"),
    ("NO_UPDATE_NOTIFIER", "1"),
    ("OPENAI_AGENTS_DISABLE_TRACING", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
];

fn python(name: &str, program: &str, mode: Mode) {
    let mut command = offline(&package(name, "bin/python3"), mode);
    command
        .arg(driver(&format!("{name}/{program}")))
        .env("PYTHONPATH", driver(""));
    run(mode, command);
}

fn node(name: &str, mode: Mode) {
    let mut command = offline("node".as_ref(), mode);
    command
        .arg(driver(&format!("{name}/main.mjs")))
        .arg(package(name, "node_modules"));
    run(mode, command);
}

#[track_caller]
fn run(mode: Mode, mut command: Command) {
    let home = TempDir::new().unwrap();
    command.envs(QUIET).env("HOME", home.path());
    drive(mode, command);
}

/// Returns a file of `tests/frameworks`.
fn driver(path: &str) -> PathBuf {
    file("../frameworks").join(path)
}

/// Returns a file of an installed framework.
#[track_caller]
fn package(name: &str, path: &str) -> PathBuf {
    require_installed(&format!("frameworks/{name}/{path}"))
}

/// Returns a command for a program that cannot resolve names. In domain mode [`drive`] gives it the
/// names of the host.
fn offline(program: &std::path::Path, mode: Mode) -> Command {
    if mode == Mode::Domain {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command
        .arg("mount --bind /dev/null /etc/resolv.conf && exec \"$0\" \"$@\"")
        .arg(program);
    command
}

#[test]
fn smolagents_code_agent_runs_in_a_sandbox() {
    python("smolagents", "main.py", Mode::Plain);
}

#[test]
fn langchain_deep_agent_runs_in_a_sandbox() {
    python("langchain-e2b", "main.py", Mode::Plain);
}

#[test]
fn langchain_agent_uses_a_host_over_mcp() {
    python("langchain-mcp", "main.py", Mode::Plain);
}

#[test]
fn openai_sandbox_agent_keeps_its_workspace() {
    python("openai-agents", "main.py", Mode::Domain);
}

#[test]
fn openai_agent_uses_a_host_over_mcp() {
    python("openai-agents", "over_mcp.py", Mode::Plain);
}

#[test]
fn agno_toolkit_works_in_a_sandbox() {
    python("agno", "main.py", Mode::Domain);
}

#[test]
fn pydantic_ai_agent_uses_a_host_over_mcp() {
    python("pydantic-ai", "main.py", Mode::Plain);
}

/// Its SDK is older than plain mode.
#[test]
fn camel_interpreter_runs_in_a_sandbox() {
    python("camel", "main.py", Mode::Domain);
}

#[test]
fn computesdk_provider_works_in_a_sandbox() {
    node("computesdk", Mode::Domain);
}

#[test]
fn mastra_agent_runs_in_a_sandbox() {
    node("mastra", Mode::Plain);
}

#[test]
fn e2b_cli_builds_a_template_from_a_dockerfile() {
    node("e2b-cli", Mode::Domain);
}
