//! A file on its way out: whole, in part, or compressed.

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
    kernel, locate,
    query::FilesQuery,
    range::{Wanted, wanted},
    text, visitor_of,
};
use crate::{answer::ControlError, surface::Surface, visitor::Visitor};

/// Bytes of one piece, and how many of them wait for a slow reader.
const PIECE: usize = 256 << 10;
const WAITING: usize = 4;

/// How much of a file is looked at to tell what it is.
const BEGINNING: u64 = 512;

/// Headers that ask for less than the content as it is.
const PARTIAL: [header::HeaderName; 4] =
    [header::RANGE, header::IF_MODIFIED_SINCE, header::IF_NONE_MATCH, header::IF_RANGE];

pub(super) async fn download(State(surface): State<Arc<Surface>>, request: Request) -> Result<Response, ControlError> {
    let (visitor, query) = (visitor_of(&request)?, FilesQuery::of(request.uri())?);
    let locator = locate(&surface, visitor, &query).await?;
    let asked = query.path.unwrap_or_default();
    let path = locator.resolve(&asked).map_err(|error| {
        let why = format!("error expanding and resolving path '{asked}': {}", error.message());
        ControlError::new(StatusCode::BAD_REQUEST, why)
    })?;
    if kernel::knows(&path) {
        return kernel::read(&surface, visitor, &path).await;
    }
    let (file, stat) = open(&surface, visitor, &path).await?;
    let headers = request.headers();
    let encoding = accepted(text(headers, &header::ACCEPT_ENCODING)).map_err(|why| {
        ControlError::new(StatusCode::NOT_ACCEPTABLE, format!("error parsing Accept-Encoding: {why}"))
    })?;
    let is_partial = PARTIAL.iter().any(|name| headers.contains_key(name));
    let (file, beginning) = blocking(move || begin(file)).await?;
    let kind = content_type(&path, &beginning);
    let mut answer = if encoding == Encoding::Gzip && !is_partial {
        let mut answer = Response::new(compressed(file));
        answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        answer
    } else {
        plain(file, &stat, headers).await?
    };
    let fields = answer.headers_mut();
    fields.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    fields.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(answer)
}

async fn open(surface: &Surface, visitor: &Visitor, path: &Path) -> Result<(File, FileStat), ControlError> {
    let shown = path.display();
    let error = match surface.host.open_file(&visitor.session, path).await {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    match error.code() {
        ErrorCode::FileNotFound => {
            Err(ControlError::new(StatusCode::NOT_FOUND, format!("path '{shown}' does not exist")))
        }
        ErrorCode::InvalidArgument if is_directory(surface, visitor, path).await => {
            Err(ControlError::new(StatusCode::BAD_REQUEST, format!("path '{shown}' is a directory")))
        }
        _ => Err(error.into()),
    }
}

/// Whether a path leads to a directory.
pub(super) async fn is_directory(surface: &Surface, visitor: &Visitor, path: &Path) -> bool {
    let details = surface.host.file_details(&visitor.session, path).await;
    details.is_ok_and(|details| details.link_end.map_or(details.stat.entry, |end| end.entry) == EntryType::Directory)
}

/// The content as it is, or the part of it that is asked for.
async fn plain(file: File, known: &FileStat, headers: &HeaderMap) -> Result<Response, ControlError> {
    let size = known.size.get();
    // What is written into headers has no fractions of seconds.
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(known.modified.as_second()).unwrap_or(0));
    let last_modified = httpdate::fmt_http_date(modified);
    let date = |name| text(headers, name).and_then(|text| httpdate::parse_http_date(text).ok());
    let mut answer = Response::new(Body::empty());
    set(&mut answer, &header::LAST_MODIFIED, &last_modified);
    set(&mut answer, &header::ACCEPT_RANGES, "bytes");
    let is_same = match text(headers, &header::IF_NONE_MATCH) {
        Some(tags) => tags.trim() == "*",
        None => date(&header::IF_MODIFIED_SINCE).is_some_and(|since| modified <= since),
    };
    if is_same {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(answer);
    }
    // A part of something else than they know is of no use to them.
    let is_current = !headers.contains_key(header::IF_RANGE) || date(&header::IF_RANGE) == Some(modified);
    let range = text(headers, &header::RANGE).filter(|_| is_current);
    let (start, length) = match wanted(range, size) {
        Wanted::Whole => (0, size),
        Wanted::Part { start, length } => {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(&mut answer, &header::CONTENT_RANGE, &format!("bytes {start}-{}/{size}", start + length - 1));
            (start, length)
        }
        Wanted::Nothing => {
            let why = ControlError::new(StatusCode::RANGE_NOT_SATISFIABLE, "invalid range: failed to overlap");
            let mut answer = why.into_response();
            set(&mut answer, &header::CONTENT_RANGE, &format!("bytes */{size}"));
            return Ok(answer);
        }
    };
    set(&mut answer, &header::CONTENT_LENGTH, &length.to_string());
    *answer.body_mut() = content(file, start, length).await?;
    Ok(answer)
}

/// A part of a file, read as fast as it is taken.
async fn content(file: File, start: u64, length: u64) -> Result<Body, ControlError> {
    let file = blocking(move || {
        let mut file = file;
        file.seek(SeekFrom::Start(start))?;
        Ok(file.take(length))
    })
    .await?;
    Ok(Body::from_stream(stream::try_unfold(file, |file| async {
        let read = tokio::task::spawn_blocking(move || {
            let mut file = file;
            let mut piece = Vec::with_capacity(PIECE);
            (&mut file).take(PIECE as u64).read_to_end(&mut piece)?;
            Ok::<_, std::io::Error>((piece, file))
        });
        let (piece, file) = read.await.map_err(std::io::Error::other)??;
        Ok::<_, std::io::Error>((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
    })))
}

/// The whole file, compressed as fast as it is taken.
fn compressed(file: File) -> Body {
    let (sender, receiver) = mpsc::channel::<std::io::Result<Bytes>>(WAITING);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = compress(file, &sender) {
            // Nobody listens any more when this fails.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Body::from_stream(stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver))))
}

fn compress(mut file: File, sender: &mpsc::Sender<std::io::Result<Bytes>>) -> std::io::Result<()> {
    let gone = |_| std::io::Error::other("nobody takes it");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut buffer = vec![0; PIECE];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        encoder.write_all(&buffer[..read])?;
        let made = std::mem::take(encoder.get_mut());
        if !made.is_empty() {
            sender.blocking_send(Ok(made.into())).map_err(gone)?;
        }
    }
    sender.blocking_send(Ok(encoder.finish()?.into())).map_err(gone)
}

/// How a file begins, and the file from its beginning.
fn begin(mut file: File) -> std::io::Result<(File, Vec<u8>)> {
    let mut beginning = Vec::new();
    (&mut file).take(BEGINNING).read_to_end(&mut beginning)?;
    file.seek(SeekFrom::Start(0))?;
    Ok((file, beginning))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, ControlError> {
    let outcome = tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other);
    outcome.and_then(|outcome| outcome).map_err(|error| Error::io("read the file", error).into())
}

fn set(answer: &mut Response, name: &header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
