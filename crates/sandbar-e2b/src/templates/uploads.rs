//! Uploaded archives for `COPY` steps, by the hash the SDK computes.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use axum::{
    Extension,
    body::Body,
    extract::{Path as UrlPath, State},
    http::{HeaderMap, StatusCode, Uri, header},
};
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use rustix::fs::OFlags;
use sandbar_core::{Error, Need, Result};
use serde_json::{Value, json};
use tokio::{fs::File, io::AsyncWriteExt as _};

use super::{Templates, errors::not_found, ids::random_id};
use crate::{
    auth::{ApiCaller, CallOwner, CallSlot, is_equal},
    protocol::Secure,
    rest::{ApiError, ApiResult, Json, Query, bad_request},
};

/// Path of uploads. The URL is signed, because SDKs send no API key there.
pub(crate) const UPLOADS: &str = "/templates-files";
/// Validity of a signed URL.
const URL_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Limit of one archive.
const MAX_ARCHIVE_BYTES: u64 = 8 << 30;
/// Limit of all archives; beyond it, the least recently used are deleted.
const MAX_TOTAL_BYTES: u64 = 16 << 30;

/// Directory of archives.
#[derive(Debug)]
pub(crate) struct Uploads {
    directory: PathBuf,
    /// Key of the signatures. New at each start of the host, because URLs are short-lived.
    key: [u8; 32],
}

impl Uploads {
    pub(crate) fn open(directory: PathBuf) -> Result<Self> {
        let unusable = |error| Error::io(format!("use `{}`", directory.display()), error);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(unusable)?;
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| {
            Error::internal("key for upload URLs could not be generated").with_source(error)
        })?;
        Ok(Self { directory, key })
    }

    /// Returns the archive of a hash, and marks it as used.
    pub(crate) fn find(&self, hash: &str) -> Option<PathBuf> {
        // It comes from a request, and becomes a path.
        check_hash(hash).ok()?;
        let path = self.directory.join(hash);
        let file = fs::File::options()
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&path)
            .ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        // The modification time is only used to choose what to delete.
        let _ = file.set_modified(SystemTime::now());
        Some(path)
    }

    fn signature(&self, hash: &str, until: i64) -> String {
        blake3::keyed_hash(&self.key, format!("{hash} {until}").as_bytes())
            .to_hex()
            .to_string()
    }

    fn is_signed(&self, hash: &str, signed: &Signed) -> bool {
        let expected = self.signature(hash, signed.expires);
        is_equal(signed.signature.as_bytes(), &expected)
            && Timestamp::now().as_second() <= signed.expires
    }

    /// Deletes archives beyond the total limit.
    fn shrink(&self) -> io::Result<()> {
        let mut archives = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            archives.push((
                metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                metadata.len(),
                entry.path(),
            ));
        }
        archives.sort();
        let mut total: u64 = archives.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in archives {
            if total <= MAX_TOTAL_BYTES {
                break;
            }
            fs::remove_file(path)?;
            total -= size;
        }
        Ok(())
    }
}

/// Signature of a URL.
#[derive(Debug)]
struct Signed {
    expires: i64,
    signature: String,
}

/// `GET /templates/{id}/files/{hash}`: whether an archive is present, and where to upload it.
pub(super) async fn link(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    secure: Option<Extension<Secure>>,
    UrlPath((template, hash)): UrlPath<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> ApiResult<(StatusCode, Json<Value>)> {
    caller.require(Need::Admin)?;
    let store = templates.store().await?;
    check_hash(&hash)?;
    if store.catalogue.view().template(&template).is_none() {
        return Err(not_found(&template));
    }
    let until = (Timestamp::now() + URL_LIFETIME).as_second();
    let signature = store.uploads.signature(&hash, until);
    let origin = origin(
        &uri,
        &headers,
        secure.is_some_and(|Extension(Secure(secure))| secure),
    )?;
    let url = format!("{origin}{UPLOADS}/{hash}?expires={until}&signature={signature}");
    let present = store.uploads.find(&hash).is_some();
    Ok((
        StatusCode::CREATED,
        Json(json!({ "present": present, "url": url })),
    ))
}

/// Returns the origin by which the client reached this host.
fn origin(uri: &Uri, headers: &HeaderMap, secure: bool) -> ApiResult<String> {
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = uri
        .authority()
        .map(http::uri::Authority::as_str)
        .or_else(|| field(header::HOST.as_str()));
    let host = host.ok_or_else(|| bad_request("request has no `Host` header"))?;
    let scheme = field("x-forwarded-proto").filter(|scheme| matches!(*scheme, "http" | "https"));
    Ok(format!(
        "{}://{host}",
        scheme.unwrap_or(if secure { "https" } else { "http" })
    ))
}

/// `PUT`: stores an archive.
pub(crate) async fn receive(
    State(templates): State<Arc<Templates>>,
    Extension(slot): Extension<Arc<dyn CallSlot>>,
    UrlPath(hash): UrlPath<String>,
    query: Query,
    body: Body,
) -> ApiResult<StatusCode> {
    let store = templates.store().await?;
    check_hash(&hash)?;
    let signed = Signed {
        expires: query
            .number("expires", 0, i64::MAX.unsigned_abs())?
            .and_then(|until| i64::try_from(until).ok())
            .unwrap_or(0),
        signature: query.text("signature").unwrap_or_default().to_owned(),
    };
    if !store.uploads.is_signed(&hash, &signed) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "upload URL is not valid or has expired (build again)",
        ));
    }
    slot.take(CallOwner::TemplateUpload)?;
    let temporary = TemporaryFile(
        store
            .uploads
            .directory
            .join(format!("{hash}.{}.new", random_id()?)),
    );
    write_body(body, &temporary.0).await?;
    let path = store.uploads.directory.join(&hash);
    fs::rename(&temporary.0, &path).map_err(unwritable)?;
    store.uploads.shrink().map_err(unwritable)?;
    Ok(StatusCode::OK)
}

/// Temporary file, deleted unless it was renamed.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

async fn write_body(body: Body, path: &Path) -> ApiResult<()> {
    let mut file = File::create(path).await.map_err(unwritable)?;
    let mut stream = body.into_data_stream();
    let mut total = 0_u64;
    while let Some(chunk) = stream.next().await {
        let chunk =
            chunk.map_err(|error| bad_request(format!("upload was interrupted: {error}")))?;
        total += chunk.len() as u64;
        if total > MAX_ARCHIVE_BYTES {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "archive is larger than 8 GiB (copy less, or ignore files)",
            ));
        }
        file.write_all(&chunk).await.map_err(unwritable)?;
    }
    file.flush().await.map_err(unwritable)?;
    file.sync_all().await.map_err(unwritable)?;
    Ok(())
}

fn unwritable(error: io::Error) -> Error {
    Error::io("store the files of a template", error)
}

pub(super) fn check_hash(hash: &str) -> ApiResult<()> {
    if hash.len() == 64
        && hash
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    {
        return Ok(());
    }
    Err(bad_request("hash of files must be 64 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_that_is_a_path_finds_no_file() {
        let scratch = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(scratch.path().join("files")).unwrap();
        let hash = "a".repeat(64);
        fs::write(scratch.path().join("files").join(&hash), "x").unwrap();
        fs::write(scratch.path().join("secret"), "x").unwrap();
        let link = "b".repeat(64);
        std::os::unix::fs::symlink("../secret", scratch.path().join("files").join(&link)).unwrap();
        assert!(uploads.find(&hash).is_some());
        let secret = scratch.path().join("secret");
        for bad in [
            "../secret",
            secret.to_str().unwrap(),
            "",
            ".",
            &link,
            "A",
            "a\0",
        ] {
            assert_eq!(uploads.find(bad), None, "{bad}");
        }
    }

    #[test]
    fn upload_url_is_valid_for_one_hash_until_it_expires() {
        let uploads = Uploads {
            directory: PathBuf::new(),
            key: [7; 32],
        };
        let later = Timestamp::now().as_second() + 60;
        let signed = |hash: &str, expires| Signed {
            expires,
            signature: uploads.signature(hash, expires),
        };
        assert!(uploads.is_signed("a", &signed("a", later)));
        assert!(!uploads.is_signed("b", &signed("a", later)));
        assert!(!uploads.is_signed("a", &signed("a", Timestamp::now().as_second() - 1)));
        assert!(!uploads.is_signed(
            "a",
            &Signed {
                expires: later + 1,
                ..signed("a", later)
            }
        ));
    }
}
