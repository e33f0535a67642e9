//! What the kernel tells in the place of files: it is in no volume, and every sandbox is told something else.

use std::{path::Path, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use sandbar_core::{ByteCount, ExecEvent, ExecSpec, Resources};

use crate::{answer::ControlError, surface::Surface, visitor::Visitor};

/// Where it tells something.
const PLACES: [&str; 2] = ["/proc", "/sys"];

/// Some of it has no end, or none that comes soon.
const LARGEST: ByteCount = ByteCount::mib(4);
const LONGEST: Duration = Duration::from_secs(10);

/// Whether only the kernel of a sandbox knows what is there.
pub(super) fn knows(path: &Path) -> bool {
    PLACES.iter().any(|place| path.starts_with(place))
}

/// What is there, read in the sandbox itself.
pub(super) async fn read(surface: &Surface, visitor: &Visitor, path: &Path) -> Result<Response, ControlError> {
    let shown = path.display();
    let spec = ExecSpec {
        env: [("LC_ALL".to_owned(), "C".to_owned())].into(),
        cwd: Some("/".to_owned()),
        resources: Resources { wall_time: Some(LONGEST), output: Some(LARGEST), ..Resources::default() },
        ..ExecSpec::new(["cat".to_owned(), "--".to_owned(), shown.to_string()])
    };
    let mut reader = surface.host.exec(&visitor.session, spec).await?;
    let (mut content, mut complaint) = (Vec::new(), Vec::new());
    let mut is_read = false;
    while let Some(event) = reader.next_event().await {
        match event {
            ExecEvent::Stdout(bytes) => content.extend_from_slice(&bytes),
            ExecEvent::Stderr(bytes) => complaint.extend_from_slice(&bytes),
            ExecEvent::Exited(status) => is_read = status.code == Some(0) && !status.truncated,
        }
    }
    if is_read {
        let mut answer = Response::new(Body::from(content));
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        return Ok(answer);
    }
    let complaint = String::from_utf8_lossy(&complaint);
    Err(if complaint.contains("No such file") {
        ControlError::new(StatusCode::NOT_FOUND, format!("path '{shown}' does not exist"))
    } else if complaint.contains("Is a directory") {
        ControlError::new(StatusCode::BAD_REQUEST, format!("path '{shown}' is a directory"))
    } else {
        ControlError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("error opening file '{shown}': {complaint}"))
    })
}
