//! Steps of the operations.

use std::{io::Cursor, path::Path};

use sandbar_client::Client;
use sandbar_core::{
    ErrorCode, ExecEvent, ExecSpec, ProcessSpec, Resources, Result, SessionId, ToolCallId,
    ToolRequest, WriteOptions,
};
use serde_json::json;

use super::{
    book::FILES,
    ports::{ListeningSocket, listening_socket},
};

pub(super) async fn write(client: &Client, id: &SessionId, content: &str) -> Result<()> {
    let source = Cursor::new(content.to_owned().into_bytes());
    client
        .write_file(id, Path::new(FILES[0]), WriteOptions::default(), source)
        .await
        .map(drop)
}

/// Launches a process that never exits by itself, with a recognisable name.
pub(super) async fn launch(
    client: &Client,
    id: &SessionId,
    name: &str,
) -> Result<Option<ListeningSocket>> {
    let mut spec = ProcessSpec::new(["/bin/sh", "-c", "exec sleep 1000", name]);
    spec.expose_port = Some(80);
    let process = client.launch_process(id, spec).await?;
    Ok(listening_socket(&process.address.unwrap()))
}

/// Checks that a write into an inactive session is refused.
pub(super) async fn assert_refused(client: &Client, id: &SessionId) -> Result<()> {
    match write(client, id, "refused").await {
        Ok(()) => panic!("{id} is not active, and was written to"),
        Err(error) if error.code() == ErrorCode::SessionPaused => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) async fn is_there(client: &Client, id: &SessionId) -> bool {
    match client.get_session(id).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(
                error.code(),
                ErrorCode::SessionNotFound,
                "{id}: {}",
                error.chain()
            );
            false
        }
    }
}

/// Runs a shell command, which must succeed.
pub(super) async fn run(client: &Client, id: &SessionId, script: &str) -> Result<()> {
    let mut command = client
        .exec(id, ExecSpec::new(["/bin/sh", "-c", script]))
        .await?;
    let mut said = Vec::new();
    while let Some(event) = command.next_event().await? {
        match event {
            ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => said.extend_from_slice(&bytes),
            ExecEvent::Exited(status) => {
                // The boxes of a killed host may exit, and be reported, before its connection
                // closes.
                if status.code == Some(0) {
                    return Ok(());
                }
                let said = String::from_utf8_lossy(&said).into_owned();
                return Err(sandbar_core::Error::internal(format!(
                    "`{script}` in {id}: {status:?}: {said}"
                )));
            }
        }
    }
    Err(sandbar_core::Error::internal("the command had no end"))
}

/// Returns a tool call that appends a line each time it runs.
pub(super) fn tool_request(call: &str) -> ToolRequest {
    let params = json!({"cmd": format!("echo {call} >> log; echo done {call}")});
    ToolRequest {
        tool: "bash".into(),
        call: ToolCallId::new(call).unwrap(),
        params: params.as_object().unwrap().clone(),
        resources: Resources::default(),
    }
}

pub(super) fn line_of(call: &str) -> String {
    format!("{call}\n")
}

pub(super) fn answer_of(call: &str) -> String {
    format!("done {call}\n")
}
