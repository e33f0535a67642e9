//! Uploads: one file as the body, or several in a form. Each file appears completely or not at all.

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
    metadata::metadata,
    multipart::{Multipart, Piece},
    request::{caller_of, locate, text},
};
use crate::{
    auth::{FilesQuery, SessionCaller},
    envd::{Envd, filesystem::METADATA_PREFIX, location::Locator},
    rest::{ApiError, Json},
};

/// Smaller chunks are collected before they are written.
const MIN_WRITE_BYTES: usize = 256 << 10;

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

/// Settings shared by all files of a request.
struct Upload<'a> {
    envd: &'a Envd,
    caller: &'a SessionCaller,
    locator: Locator,
    /// Destination; the file names in the form if absent.
    path: Option<String>,
    metadata: BTreeMap<String, String>,
    /// `Content-Length`.
    length: Option<u64>,
}

pub(super) async fn upload(
    State(envd): State<Arc<Envd>>,
    request: Request,
) -> Result<Response, ApiError> {
    let caller = caller_of(&request)?.clone();
    let (head, body) = request.into_parts();
    let encoding = sent(text(&head.headers, &header::CONTENT_ENCODING));
    // The body of an unknown encoding is only drained.
    let mut incoming = Incoming::new(body, *encoding.as_ref().unwrap_or(&Encoding::Identity));
    let outcome = async {
        encoding.map_err(|why| refuse(format!("error decompressing request body: {why}")))?;
        let query = FilesQuery::of(&head.uri)?;
        let locator = locate(&envd, &caller, &query).await?;
        let length =
            text(&head.headers, &header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let metadata = metadata(&head.headers)?;
        let upload = Upload {
            envd: &envd,
            caller: &caller,
            locator,
            path: query.path,
            metadata,
            length,
        };
        upload.take(&head.headers, &mut incoming).await
    };
    let mut response = match outcome.await {
        Ok(written) => {
            envd.host.changes_delivered(&caller.session).await;
            return Ok(Json(written).into_response());
        }
        Err(error) => error.into_response(),
    };
    if !incoming.drain().await && head.version != Version::HTTP_2 {
        // Unread data is left: SDKs would reuse the connection and fail.
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

impl Upload<'_> {
    async fn take(
        &self,
        headers: &HeaderMap,
        incoming: &mut Incoming,
    ) -> Result<Vec<Written>, ApiError> {
        let content_type = headers
            .get(header::CONTENT_TYPE)
            .map(HeaderValue::as_bytes)
            .unwrap_or_default();
        let kind = Parameters::read(content_type).unwrap_or_default().value;
        if kind == "application/octet-stream" {
            self.take_one(incoming).await
        } else if kind.starts_with("multipart/") {
            let form = Multipart::new(content_type);
            let form =
                form.map_err(|why| refuse(format!("error parsing multipart form: {why}")))?;
            self.take_form(form, incoming).await
        } else {
            let kind = String::from_utf8_lossy(content_type);
            let expected = "expected multipart/form-data or application/octet-stream";
            Err(refuse(format!(
                "unsupported content type: {kind}, {expected}"
            )))
        }
    }

    async fn take_one(&self, incoming: &mut Incoming) -> Result<Vec<Written>, ApiError> {
        let Some(path) = &self.path else {
            return Err(refuse(
                "path query parameter is required for raw body upload".into(),
            ));
        };
        let mut file = self.begin(self.resolve(path)?).await?;
        while let Some(bytes) = incoming.next().await? {
            file.write(bytes)
                .await
                .map_err(|error| self.not_written(error))?;
        }
        Ok(vec![self.finish(file).await?])
    }

    async fn take_form(
        &self,
        mut form: Multipart,
        incoming: &mut Incoming,
    ) -> Result<Vec<Written>, ApiError> {
        let unreadable = |why: &str| refuse(format!("error reading form: {why}"));
        let mut written: Vec<Written> = Vec::new();
        let mut current = None;
        while let Some(bytes) = incoming.next().await? {
            form.push(&bytes);
            while let Some(piece) = form.next().map_err(unreadable)? {
                match piece {
                    // Other fields of the form are ignored.
                    Piece::Part(head) if head.name.as_deref() != Some("file") => current = None,
                    Piece::Part(head) => {
                        let name = self
                            .path
                            .clone()
                            .or(head.filename)
                            .filter(|name| !name.is_empty());
                        let name = name.ok_or_else(|| {
                            refuse(
                                "error getting multipart custom part file name: filename not found"
                                    .into(),
                            )
                        })?;
                        let path = self.resolve(&name)?;
                        if let Some(twice) =
                            written.iter().find(|file| Path::new(&file.path) == path)
                        {
                            return Err(only_one(twice, &written));
                        }
                        current = Some(self.begin(path).await?);
                    }
                    Piece::Data(bytes) => {
                        if let Some(file) = &mut current {
                            file.write(bytes)
                                .await
                                .map_err(|error| self.not_written(error))?;
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
        if form.is_over() {
            Ok(written)
        } else {
            Err(unreadable("unexpected EOF"))
        }
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, ApiError> {
        self.locator.resolve_for_change(path).map_err(|error| {
            let hint = error
                .hint()
                .map(|hint| format!(" ({hint})"))
                .unwrap_or_default();
            refuse(format!("error resolving path: {}{hint}", error.message()))
        })
    }

    async fn begin(&self, path: PathBuf) -> Result<Draft, ApiError> {
        let options = WriteOptions {
            mode: None,
            create_dirs: true,
            owner: Some(self.locator.owner()),
        };
        let writer = match self
            .envd
            .host
            .write_file(&self.caller.session, &path, options)
            .await
        {
            Ok(writer) => writer,
            Err(error) if error.code() == ErrorCode::InvalidArgument => {
                let is_directory = is_directory(self.envd, self.caller, &path).await;
                let what = format!("path is a directory: {}", path.display());
                return Err(refuse(if is_directory {
                    what
                } else {
                    error.message().to_owned()
                }));
            }
            Err(error) if error.code() == ErrorCode::FileNotFound => {
                let what = match self.file_above(&path).await {
                    Some(file) => format!(
                        "error ensuring directories: path is a file: {}",
                        file.display()
                    ),
                    None => format!("error ensuring directories: {}", error.message()),
                };
                return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, what));
            }
            Err(error) => return Err(self.not_written(error)),
        };
        for (key, value) in &self.metadata {
            match writer
                .set_attribute(
                    &format!("{METADATA_PREFIX}{key}"),
                    value.clone().into_bytes(),
                )
                .await
            {
                // The file is stored even if its file system has no extended attributes.
                Err(error) if error.code() == ErrorCode::Unavailable => {
                    tracing::warn!(error = error.chain(), "metadata of a file was not stored");
                }
                outcome => outcome.map_err(|error| self.not_written(error))?,
            }
        }
        Ok(Draft {
            path,
            writer,
            waiting: BytesMut::new(),
        })
    }

    /// Returns the ancestor of a path that is not a directory.
    async fn file_above<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        for above in path.ancestors().skip(1) {
            if self
                .envd
                .host
                .stat(&self.caller.session, above)
                .await
                .is_ok()
            {
                return (!is_directory(self.envd, self.caller, above).await).then_some(above);
            }
        }
        None
    }

    async fn finish(&self, file: Draft) -> Result<Written, ApiError> {
        let path = file.path.clone();
        file.commit()
            .await
            .map_err(|error| self.not_written(error))?;
        Ok(Written {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            path: path.to_string_lossy().into_owned(),
            kind: "file",
            metadata: self.metadata.clone(),
        })
    }

    fn not_written(&self, error: Error) -> ApiError {
        if error.code() != ErrorCode::StorageFull {
            return error.into();
        }
        let what = "not enough disk space available";
        let what = self.length.map_or(what.to_owned(), |length| {
            format!("attempted to write {length} bytes: {what}")
        });
        ApiError::new(StatusCode::INSUFFICIENT_STORAGE, what)
    }
}

/// A file being written, with data that was not written yet.
struct Draft {
    path: PathBuf,
    writer: FileWriter,
    waiting: BytesMut,
}

impl Draft {
    async fn write(&mut self, bytes: Bytes) -> sandbar_core::Result<()> {
        if self.waiting.is_empty() && bytes.len() >= MIN_WRITE_BYTES {
            return self.writer.write(bytes).await;
        }
        self.waiting.extend_from_slice(&bytes);
        if self.waiting.len() >= MIN_WRITE_BYTES {
            self.flush().await
        } else {
            Ok(())
        }
    }

    async fn flush(&mut self) -> sandbar_core::Result<()> {
        let bytes = std::mem::take(&mut self.waiting).freeze();
        if bytes.is_empty() {
            Ok(())
        } else {
            self.writer.write(bytes).await
        }
    }

    async fn commit(mut self) -> sandbar_core::Result<()> {
        self.flush().await?;
        self.writer.commit().await
    }
}

fn only_one(twice: &Written, written: &[Written]) -> ApiError {
    let path = &twice.path;
    let others: Vec<&str> = written
        .iter()
        .map(|file| file.path.as_str())
        .filter(|other| other != path)
        .collect();
    let others = match &others[..] {
        [] => String::new(),
        others => format!(
            ", also the following files were uploaded: {}",
            others.join(", ")
        ),
    };
    refuse(format!(
        "you cannot upload multiple files to the same path '{path}' in one upload request, only the first specified file was uploaded{others}"
    ))
}

fn refuse(what: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, what)
}
