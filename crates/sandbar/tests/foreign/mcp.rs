//! MCP clients, each in its own environment: their dependencies conflict.

use std::process::Command;

use sandbar_testing::{require_installed, require_node_modules};

use crate::{
    host::{drive, drive_without_streams},
    programs::{file, script},
};

/// Runs a client from PyPI; `kind` selects its class.
fn python(environment: &str, transport: &str, kind: &str) {
    let mut python = Command::new(require_installed(&format!("mcp/{environment}/bin/python3")));
    python
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(file("mcp_client.py"))
        .args([transport, kind]);
    drive(python);
}

#[test]
fn mcp_1_session_drives_a_host_over_stdio() {
    python("mcp-1", "stdio", "session");
}

#[test]
fn mcp_1_session_drives_a_host_over_http() {
    python("mcp-1", "http", "session");
}

#[test]
fn mcp_2_session_drives_a_host_over_stdio() {
    python("mcp-2", "stdio", "session");
}

#[test]
fn mcp_2_session_drives_a_host_over_http() {
    python("mcp-2", "http", "session");
}

#[test]
fn mcp_2_client_drives_a_host_over_stdio() {
    python("mcp-2", "stdio", "client");
}

#[test]
fn mcp_2_client_drives_a_host_over_http() {
    python("mcp-2", "http", "client");
}

#[test]
fn fastmcp_drives_a_host_over_stdio() {
    python("fastmcp", "stdio", "fastmcp");
}

#[test]
fn fastmcp_drives_a_host_over_http() {
    python("fastmcp", "http", "fastmcp");
}

fn mcp_sdk(transport: &str) {
    let mut run = script("mcp-sdk/run.sh");
    run.arg(require_node_modules("node/mcp-sdk")).arg(transport);
    drive(run);
}

#[test]
fn mcp_typescript_sdk_drives_a_host_over_stdio() {
    mcp_sdk("stdio");
}

#[test]
fn mcp_typescript_sdk_drives_a_host_over_http() {
    mcp_sdk("http");
}

/// Its command line, one program a call.
fn inspector(transport: &str) {
    let mut run = script("inspector.sh");
    run.arg(transport).env(
        "INSPECTOR",
        require_node_modules("node/inspector").join(".bin/mcp-inspector"),
    );
    drive_without_streams(run);
}

#[test]
fn mcp_inspector_drives_a_host_over_stdio() {
    inspector("stdio");
}

#[test]
fn mcp_inspector_drives_a_host_over_http() {
    inspector("http");
}
