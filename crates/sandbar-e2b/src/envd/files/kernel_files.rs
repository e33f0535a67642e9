//! Files in `/proc` and `/sys`: they come from the kernel of the sandbox and are in no volume.

use std::{path::Path, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use sandbar_core::{ByteCount, ExecEvent, ExecSpec, ExitStatus, Resources, SessionId};
use sandbar_host::Host;

use crate::{
    auth::SessionCaller,
    envd::Envd,
    rest::{ApiError, ApiResult},
};

const KERNEL_DIRECTORIES: [&str; 2] = ["/proc", "/sys"];

/// Limits for files that never end or block.
const MAX_BYTES: ByteCount = ByteCount::mib(4);
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns whether a path is below a file system of the kernel.
pub(super) fn contains(path: &Path) -> bool {
    KERNEL_DIRECTORIES
        .iter()
        .any(|directory| path.starts_with(directory))
}

/// Reads a file by running `cat` in the sandbox.
pub(super) async fn read(envd: &Envd, caller: &SessionCaller, path: &Path) -> ApiResult<Response> {
    let (host, session) = (&*envd.host, &caller.session);
    let shown = path.display().to_string();
    let output = run(host, session, &["cat", "--", &shown]).await?;
    if output.status.code == Some(0) && !output.status.truncated {
        let mut response = Response::new(Body::from(output.stdout));
        let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        return Ok(response);
    }
    Err(if succeeds(host, session, &["test", "-d", &shown]).await? {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            format!("path '{shown}' is a directory"),
        )
    } else if succeeds(host, session, &["test", "-e", &shown]).await? {
        let complaint = String::from_utf8_lossy(&output.stderr);
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("error opening file '{shown}': {complaint}"),
        )
    } else {
        ApiError::new(
            StatusCode::NOT_FOUND,
            format!("path '{shown}' does not exist"),
        )
    })
}

#[derive(Default)]
struct Output {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

async fn succeeds(host: &Host, session: &SessionId, argv: &[&str]) -> ApiResult<bool> {
    Ok(run(host, session, argv).await?.status.code == Some(0))
}

async fn run(host: &Host, session: &SessionId, argv: &[&str]) -> ApiResult<Output> {
    let spec = ExecSpec {
        env: [("LC_ALL".to_owned(), "C".to_owned())].into(),
        cwd: Some("/".to_owned()),
        resources: Resources {
            wall_time: Some(READ_TIMEOUT),
            output: Some(MAX_BYTES),
            ..Resources::default()
        },
        ..ExecSpec::new(argv.iter().copied())
    };
    let mut running = host.exec(session, spec).await?;
    let mut output = Output::default();
    while let Some(event) = running.next_event().await {
        match event {
            ExecEvent::Stdout(bytes) => output.stdout.extend_from_slice(&bytes),
            ExecEvent::Stderr(bytes) => output.stderr.extend_from_slice(&bytes),
            ExecEvent::Exited(status) => output.status = status,
        }
    }
    Ok(output)
}
