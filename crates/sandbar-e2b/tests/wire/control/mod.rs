//! The control API, one file per call or resource.

mod ceilings;
mod connecting;
mod creating;
mod expiry;
mod forking;
mod keys;
mod killing;
mod listing;
mod metrics_and_logs;
mod networks;
mod not_offered;
mod pausing;
mod restarts;
mod rollback;
mod snapshots;
mod waking;

use std::time::{Duration, Instant};

use sandbar_core::{ExecEvent, ExecSpec, SessionId};
use serde_json::{Value, json};

use crate::{
    client::{Answer, Sandbox},
    world::World,
};

impl World {
    pub(super) async fn get(&self, path: &str) -> Answer {
        self.control("GET", path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Answer {
        self.control("POST", path, Some(&body)).await
    }

    /// Returns the details of a sandbox.
    pub(super) async fn info(&self, sandbox: &Sandbox) -> Value {
        let answer = self.get(&format!("/sandboxes/{}", sandbox.id)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub(super) async fn state(&self, sandbox: &Sandbox) -> String {
        self.info(sandbox).await["state"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(super) async fn pause(&self, sandbox: &Sandbox) -> Answer {
        self.post(&format!("/sandboxes/{}/pause", sandbox.id), json!({}))
            .await
    }

    pub(super) async fn connect(&self, sandbox: &Sandbox) -> Answer {
        self.post(
            &format!("/v2/sandboxes/{}/connect", sandbox.id),
            json!({ "timeout": 300 }),
        )
        .await
    }

    /// Returns the output of a script in a sandbox.
    pub(super) async fn shell(&self, sandbox: &Sandbox, script: &str) -> String {
        let id = SessionId::new(sandbox.id.as_str()).unwrap();
        let mut command = self
            .host
            .exec(&id, ExecSpec::new(["/bin/sh", "-c", script]))
            .await
            .unwrap();
        let mut output = Vec::new();
        while let Some(event) = command.next_event().await {
            if let ExecEvent::Stdout(bytes) = event {
                output.extend_from_slice(&bytes);
            }
        }
        String::from_utf8(output).unwrap()
    }

    /// Waits until a sandbox is in a state.
    pub(super) async fn until(&self, sandbox: &Sandbox, state: &str) {
        eventually(state, async || self.state(sandbox).await == state).await;
    }
}

/// Waits until a condition holds; fails the test after a timeout.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asserts that a response is an E2B error with this status, whose message contains all words.
fn assert_refused(answer: &Answer, status: u16, words: &[&str]) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.json()["code"], status, "{text}");
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

/// Parses a timestamp of a response.
fn moment(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}
