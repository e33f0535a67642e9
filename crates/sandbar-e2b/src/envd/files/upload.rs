//! Files on their way in: one as it is, or several in a form. Each appears whole or not at all.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Version, header},
    response::{IntoResponse as _, Response},
};
use bytes::{Bytes, BytesMut};
use sandbar_core::{Error, ErrorCode, WriteOptions};
use sandbar_host::FileWriter;
use serde::Serialize;

use super::{
    disposition::Parameters,
    download::is_directory,
    encoding::{Encoding, sent},
    incoming::Incoming,
    locate,
    metadata::metadata,
    multipart::{Multipart, Piece},
    query::FilesQuery,
    text, visitor_of,
};
use crate::{
    answer::ControlError,
    envd::{filesystem::METADATA, location::Locator},
    json::Json,
    surface::Surface,
    visitor::Visitor,
};

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;

/// A file that was written.
#[derive(Debug, Serialize)]
struct Written {
    path: String,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

/// What all files of a request have in common.
struct Upload<'a> {
    surface: &'a Surface,
    visitor: &'a Visitor,
    locator: Locator,
    /// Where it goes; by their own names when absent.
    path: Option<String>,
    metadata: BTreeMap<String, String>,
    /// As the caller has announced it.
    length: Option<u64>,
}

pub(super) async fn upload(State(surface): State<Arc<Surface>>, request: Request) -> Result<Response, ControlError> {
    let visitor = visitor_of(&request)?.clone();
    let (head, body) = request.into_parts();
    let encoding = sent(text(&head.headers, &header::CONTENT_ENCODING));
    // What is encoded otherwise is not looked into.
    let mut incoming = Incoming::new(body, *encoding.as_ref().unwrap_or(&Encoding::Identity));
    let outcome = async {
        encoding.map_err(|why| refuse(format!("error decompressing request body: {why}")))?;
        let query = FilesQuery::of(&head.uri)?;
        let locator = locate(&surface, &visitor, &query).await?;
        let length = text(&head.headers, &header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let metadata = metadata(&head.headers)?;
        let upload = Upload { surface: &surface, visitor: &visitor, locator, path: query.path, metadata, length };
        upload.take(&head.headers, &mut incoming).await
    };
    let mut answer = match outcome.await {
        Ok(written) => {
            surface.host.changes_told(&visitor.session).await;
            return Ok(Json(written).into_response());
        }
        Err(error) => error.into_response(),
    };
    if !incoming.drain().await && head.version != Version::HTTP_2 {
        // SDKs would use the connection again, and fail.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

impl Upload<'_> {
    async fn take(&self, headers: &HeaderMap, incoming: &mut Incoming) -> Result<Vec<Written>, ControlError> {
        let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let kind = Parameters::read(content_type).unwrap_or_default().value;
        if kind == "application/octet-stream" {
            self.take_one(incoming).await
        } else if kind.starts_with("multipart/") {
            let form = Multipart::new(content_type);
            let form = form.map_err(|why| refuse(format!("error parsing multipart form: {why}")))?;
            self.take_form(form, incoming).await
        } else {
            let kind = String::from_utf8_lossy(content_type);
            let expected = "expected multipart/form-data or application/octet-stream";
            Err(refuse(format!("unsupported content type: {kind}, {expected}")))
        }
    }

    async fn take_one(&self, incoming: &mut Incoming) -> Result<Vec<Written>, ControlError> {
        let Some(path) = &self.path else {
            return Err(refuse("path query parameter is required for raw body upload".into()));
        };
        let mut file = self.begin(self.resolve(path)?).await?;
        while let Some(bytes) = incoming.next().await? {
            file.write(bytes).await.map_err(|error| self.not_written(error))?;
        }
        Ok(vec![self.finish(file).await?])
    }

    async fn take_form(&self, mut form: Multipart, incoming: &mut Incoming) -> Result<Vec<Written>, ControlError> {
        let unreadable = |why: &str| refuse(format!("error reading form: {why}"));
        let mut written: Vec<Written> = Vec::new();
        let mut current = None;
        while let Some(bytes) = incoming.next().await? {
            form.push(&bytes);
            while let Some(piece) = form.next().map_err(unreadable)? {
                match piece {
                    // What else is in a form is not for files.
                    Piece::Part(head) if head.name.as_deref() != Some("file") => current = None,
                    Piece::Part(head) => {
                        let name = self.path.clone().or(head.filename).filter(|name| !name.is_empty());
                        let name = name.ok_or_else(|| {
                            refuse("error getting multipart custom part file name: filename not found".into())
                        })?;
                        let path = self.resolve(&name)?;
                        if let Some(twice) = written.iter().find(|file| Path::new(&file.path) == path) {
                            return Err(only_one(twice, &written));
                        }
                        current = Some(self.begin(path).await?);
                    }
                    Piece::Data(bytes) => {
                        if let Some(file) = &mut current {
                            file.write(bytes).await.map_err(|error| self.not_written(error))?;
                        }
                    }
                    Piece::End => {
                        if let Some(file) = current.take() {
                            written.push(self.finish(file).await?);
                        }
                    }
                }
            }
        }
        if form.is_over() { Ok(written) } else { Err(unreadable("unexpected EOF")) }
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, ControlError> {
        self.locator.resolve_for_change(path).map_err(|error| {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            refuse(format!("error resolving path: {}{hint}", error.message()))
        })
    }

    async fn begin(&self, path: PathBuf) -> Result<Draft, ControlError> {
        let options = WriteOptions { mode: None, create_dirs: true, owner: Some(self.locator.owner()) };
        let writer = match self.surface.host.write_file(&self.visitor.session, &path, options).await {
            Ok(writer) => writer,
            Err(error) if error.code() == ErrorCode::InvalidArgument => {
                let is_directory = is_directory(self.surface, self.visitor, &path).await;
                let what = format!("path is a directory: {}", path.display());
                return Err(refuse(if is_directory { what } else { error.message().to_owned() }));
            }
            Err(error) if error.code() == ErrorCode::FileNotFound => {
                let what = match self.file_above(&path).await {
                    Some(file) => format!("error ensuring directories: path is a file: {}", file.display()),
                    None => format!("error ensuring directories: {}", error.message()),
                };
                return Err(ControlError::new(StatusCode::INTERNAL_SERVER_ERROR, what));
            }
            Err(error) => return Err(self.not_written(error)),
        };
        for (key, value) in &self.metadata {
            match writer.set_attribute(&format!("{METADATA}{key}"), value.clone().into_bytes()).await {
                // A file system that keeps none keeps the file all the same.
                Err(error) if error.code() == ErrorCode::Unavailable => {
                    tracing::warn!(error = error.chain(), "metadata of a file was not kept");
                }
                outcome => outcome.map_err(|error| self.not_written(error))?,
            }
        }
        Ok(Draft { path, writer, waiting: BytesMut::new() })
    }

    /// What is in the way where a directory should be.
    async fn file_above<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        for above in path.ancestors().skip(1) {
            if self.surface.host.stat(&self.visitor.session, above).await.is_ok() {
                return (!is_directory(self.surface, self.visitor, above).await).then_some(above);
            }
        }
        None
    }

    async fn finish(&self, file: Draft) -> Result<Written, ControlError> {
        let path = file.path.clone();
        file.commit().await.map_err(|error| self.not_written(error))?;
        Ok(Written {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_string_lossy().into_owned(),
            kind: "file",
            metadata: self.metadata.clone(),
        })
    }

    fn not_written(&self, error: Error) -> ControlError {
        if error.code() != ErrorCode::StorageFull {
            return error.into();
        }
        let what = "not enough disk space available";
        let what = self.length.map_or(what.to_owned(), |length| format!("attempted to write {length} bytes: {what}"));
        ControlError::new(StatusCode::INSUFFICIENT_STORAGE, what)
    }
}

/// A file being written, some of it still here.
struct Draft {
    path: PathBuf,
    writer: FileWriter,
    waiting: BytesMut,
}

impl Draft {
    async fn write(&mut self, bytes: Bytes) -> sandbar_core::Result<()> {
        if self.waiting.is_empty() && bytes.len() >= PIECE {
            return self.writer.write(bytes).await;
        }
        self.waiting.extend_from_slice(&bytes);
        if self.waiting.len() >= PIECE { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> sandbar_core::Result<()> {
        let bytes = std::mem::take(&mut self.waiting).freeze();
        if bytes.is_empty() { Ok(()) } else { self.writer.write(bytes).await }
    }

    async fn commit(mut self) -> sandbar_core::Result<()> {
        self.flush().await?;
        self.writer.commit().await
    }
}

fn only_one(twice: &Written, written: &[Written]) -> ControlError {
    let path = &twice.path;
    let others: Vec<&str> = written.iter().map(|file| file.path.as_str()).filter(|other| other != path).collect();
    let others = match &others[..] {
        [] => String::new(),
        others => format!(", also the following files were uploaded: {}", others.join(", ")),
    };
    refuse(format!(
        "you cannot upload multiple files to the same path '{path}' in one upload request, only the first specified file was uploaded{others}"
    ))
}

fn refuse(what: String) -> ControlError {
    ControlError::new(StatusCode::BAD_REQUEST, what)
}
