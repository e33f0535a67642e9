//! Helpers for the tests of templates.

use std::{io::Read as _, path::Path, time::Duration};

use sandbar_core::{ExecEvent, ExecSpec, PageRequest, SessionFilter, SessionId};
use serde_json::{Value, json};

use crate::world::World;

/// Build request.
pub(super) struct Wanted<'a> {
    pub(super) name: &'a str,
    pub(super) tags: &'a [&'a str],
    pub(super) cpu_count: u32,
    pub(super) memory_mb: u32,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(name: &'a str) -> Self {
        Self {
            name,
            tags: &[],
            cpu_count: 2,
            memory_mb: 512,
        }
    }
}

pub(super) fn step(kind: &str, args: &[&str]) -> Value {
    json!({ "type": kind, "args": args, "force": false })
}

/// Requests a build and returns the ids of template and build.
pub(super) async fn requested(world: &World, wanted: &Wanted<'_>) -> (String, String) {
    let body = json!({
        "name": wanted.name,
        "tags": wanted.tags,
        "cpuCount": wanted.cpu_count,
        "memoryMB": wanted.memory_mb,
    });
    let answer = world.control("POST", "/v3/templates", Some(&body)).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let text = |name: &str| answer.json()[name].as_str().unwrap().to_owned();
    (text("templateID"), text("buildID"))
}

/// Starts a requested build.
pub(super) async fn started(world: &World, template: &str, build: &str, plan: &Value) {
    let answer = world
        .control(
            "POST",
            &format!("/v2/templates/{template}/builds/{build}"),
            Some(plan),
        )
        .await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

/// Polls until a build is over, as SDKs do; returns the last status with all log lines.
pub(super) async fn finished(world: &World, template: &str, build: &str) -> Value {
    let mut entries: Vec<Value> = Vec::new();
    loop {
        let path = format!(
            "/templates/{template}/builds/{build}/status?logsOffset={}",
            entries.len()
        );
        let answer = world.control("GET", &path, None).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let mut status = answer.json();
        entries.extend(status["logEntries"].as_array().unwrap().clone());
        match status["status"].as_str().unwrap() {
            "building" | "waiting" => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => {
                status["logEntries"] = entries.into();
                return status;
            }
        }
    }
}

/// Requests, starts and awaits a build.
pub(super) async fn built(world: &World, wanted: &Wanted<'_>, plan: Value) -> Value {
    let (template, build) = requested(world, wanted).await;
    started(world, &template, &build, &plan).await;
    finished(world, &template, &build).await
}

/// Returns the log of a build.
pub(super) fn lines(status: &Value) -> String {
    let entries = status["logEntries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["message"].as_str().unwrap().to_owned() + "\n")
        .collect()
}

/// Reads a file of a sandbox.
pub(super) async fn content(world: &World, sandbox: &str, path: &str) -> String {
    let session = SessionId::new(sandbox).unwrap();
    let (mut file, _) = world
        .host
        .open_file(&session, Path::new(path))
        .await
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Returns the output of a shell command line in a sandbox.
pub(super) async fn run(world: &World, sandbox: &str, line: &str) -> String {
    let session = SessionId::new(sandbox).unwrap();
    let mut command = world
        .host
        .exec(&session, ExecSpec::new(["/bin/sh", "-c", line]))
        .await
        .unwrap();
    let mut text = Vec::new();
    while let Some(event) = command.next_event().await {
        if let ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) = event {
            text.extend_from_slice(&bytes);
        }
    }
    String::from_utf8(text).unwrap()
}

/// Returns the ids of all sessions.
pub(super) async fn sessions(world: &World) -> Vec<String> {
    let page = world
        .host
        .list_sessions(&SessionFilter::default(), &PageRequest::default())
        .await
        .unwrap();
    page.items
        .into_iter()
        .map(|session| session.id.to_string())
        .collect()
}
