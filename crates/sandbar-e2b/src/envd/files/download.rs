//! Downloads: whole files, ranges, or compressed.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream;
use sandbar_core::{EntryType, Error, ErrorCode, FileStat};
use tokio::sync::mpsc;

use super::{
    content_type::content_type,
    encoding::{Encoding, accepted},
    kernel_files,
    range::{ByteRange, requested_range},
    request::{caller_of, locate, text},
};
use crate::{
    auth::{FilesQuery, SessionCaller},
    envd::Envd,
    rest::ApiError,
};

const CHUNK_BYTES: usize = 256 << 10;
/// Compressed chunks buffered for a slow client.
const MAX_BUFFERED_CHUNKS: usize = 4;

/// Bytes read to detect the content type.
const SNIFFED_BYTES: u64 = 512;

/// Headers that ask for a part or a condition; such responses are never compressed.
const PARTIAL: [header::HeaderName; 4] = [
    header::RANGE,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
];

pub(super) async fn download(
    State(envd): State<Arc<Envd>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (caller, query) = (caller_of(&request)?, FilesQuery::of(request.uri())?);
    let locator = locate(&envd, caller, &query).await?;
    let asked = query.path.unwrap_or_default();
    let path = locator.resolve(&asked).map_err(|error| {
        let why = format!(
            "error expanding and resolving path '{asked}': {}",
            error.message()
        );
        ApiError::new(StatusCode::BAD_REQUEST, why)
    })?;
    if kernel_files::contains(&path) {
        return kernel_files::read(&envd, caller, &path).await;
    }
    let (file, stat) = open(&envd, caller, &path).await?;
    let headers = request.headers();
    let encoding = accepted(text(headers, &header::ACCEPT_ENCODING)).map_err(|why| {
        ApiError::new(
            StatusCode::NOT_ACCEPTABLE,
            format!("error parsing Accept-Encoding: {why}"),
        )
    })?;
    let is_partial = PARTIAL.iter().any(|name| headers.contains_key(name));
    let (file, first_bytes) = blocking(move || sniff(file)).await?;
    let kind = content_type(&path, &first_bytes);
    let mut response = if encoding == Encoding::Gzip && !is_partial {
        let mut response = Response::new(compressed(file));
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        plain(file, &stat, headers).await?
    };
    let fields = response.headers_mut();
    fields.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    fields
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static(kind));
    fields.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    Ok(response)
}

async fn open(
    envd: &Envd,
    caller: &SessionCaller,
    path: &Path,
) -> Result<(File, FileStat), ApiError> {
    let shown = path.display();
    let error = match envd.host.open_file(&caller.session, path).await {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    match error.code() {
        ErrorCode::FileNotFound => Err(ApiError::new(
            StatusCode::NOT_FOUND,
            format!("path '{shown}' does not exist"),
        )),
        ErrorCode::InvalidArgument if is_directory(envd, caller, path).await => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            format!("path '{shown}' is a directory"),
        )),
        _ => Err(error.into()),
    }
}

/// Returns whether a path is a directory, following links.
pub(super) async fn is_directory(envd: &Envd, caller: &SessionCaller, path: &Path) -> bool {
    let details = envd.host.file_details(&caller.session, path).await;
    details.is_ok_and(|details| {
        details.link_end.map_or(details.stat.entry, |end| end.entry) == EntryType::Directory
    })
}

/// Returns the uncompressed content, or the requested range.
async fn plain(file: File, known: &FileStat, headers: &HeaderMap) -> Result<Response, ApiError> {
    let size = known.size.get();
    // Dates in headers have no fractions of seconds.
    let modified = SystemTime::UNIX_EPOCH
        + Duration::from_secs(u64::try_from(known.modified.as_second()).unwrap_or(0));
    let last_modified = httpdate::fmt_http_date(modified);
    let date = |name| text(headers, name).and_then(|text| httpdate::parse_http_date(text).ok());
    let mut response = Response::new(Body::empty());
    set(&mut response, &header::LAST_MODIFIED, &last_modified);
    set(&mut response, &header::ACCEPT_RANGES, "bytes");
    let is_same = match text(headers, &header::IF_NONE_MATCH) {
        Some(tags) => tags.trim() == "*",
        None => date(&header::IF_MODIFIED_SINCE).is_some_and(|since| modified <= since),
    };
    if is_same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    // If the file has changed (`If-Range`), a range of it is of no use to the client.
    let is_current =
        !headers.contains_key(header::IF_RANGE) || date(&header::IF_RANGE) == Some(modified);
    let range = text(headers, &header::RANGE).filter(|_| is_current);
    let (start, length) = match requested_range(range, size) {
        ByteRange::Whole => (0, size),
        ByteRange::Part { start, length } => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(
                &mut response,
                &header::CONTENT_RANGE,
                &format!("bytes {start}-{}/{size}", start + length - 1),
            );
            (start, length)
        }
        ByteRange::Unsatisfiable => {
            let why = ApiError::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "invalid range: failed to overlap",
            );
            let mut response = why.into_response();
            set(
                &mut response,
                &header::CONTENT_RANGE,
                &format!("bytes */{size}"),
            );
            return Ok(response);
        }
    };
    set(&mut response, &header::CONTENT_LENGTH, &length.to_string());
    *response.body_mut() = content(file, start, length).await?;
    Ok(response)
}

/// Streams a part of a file with the back-pressure of the client.
async fn content(file: File, start: u64, length: u64) -> Result<Body, ApiError> {
    let file = blocking(move || {
        let mut file = file;
        file.seek(SeekFrom::Start(start))?;
        Ok(file.take(length))
    })
    .await?;
    Ok(Body::from_stream(stream::try_unfold(file, |file| async {
        let read = tokio::task::spawn_blocking(move || {
            let mut file = file;
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            (&mut file)
                .take(CHUNK_BYTES as u64)
                .read_to_end(&mut chunk)?;
            Ok::<_, std::io::Error>((chunk, file))
        });
        let (chunk, file) = read.await.map_err(std::io::Error::other)??;
        Ok::<_, std::io::Error>((!chunk.is_empty()).then(|| (Bytes::from(chunk), file)))
    })))
}

/// Streams the whole file, compressed, with the back-pressure of the client.
fn compressed(file: File) -> Body {
    let (sender, receiver) = mpsc::channel::<std::io::Result<Bytes>>(MAX_BUFFERED_CHUNKS);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = compress(file, &sender) {
            // Fails only if the client is gone.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Body::from_stream(stream::unfold(receiver, async |mut receiver| {
        Some((receiver.recv().await?, receiver))
    }))
}

fn compress(mut file: File, sender: &mpsc::Sender<std::io::Result<Bytes>>) -> std::io::Result<()> {
    let gone = |_| std::io::Error::other("client disconnected");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        encoder.write_all(&buffer[..read])?;
        let packed = std::mem::take(encoder.get_mut());
        if !packed.is_empty() {
            sender.blocking_send(Ok(packed.into())).map_err(gone)?;
        }
    }
    sender
        .blocking_send(Ok(encoder.finish()?.into()))
        .map_err(gone)
}

/// Returns the file, rewound, and its first bytes.
fn sniff(mut file: File) -> std::io::Result<(File, Vec<u8>)> {
    let mut start = Vec::new();
    (&mut file).take(SNIFFED_BYTES).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    Ok((file, start))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let outcome = tokio::task::spawn_blocking(work)
        .await
        .map_err(std::io::Error::other);
    outcome
        .and_then(|outcome| outcome)
        .map_err(|error| Error::io("read the file", error).into())
}

fn set(response: &mut Response, name: &header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
