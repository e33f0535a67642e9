//! Files for the steps that copy: archives by the hash the SDK gives them.

use std::{
    fs, io,
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
use sandbar_core::{Error, Need, Result};
use serde_json::{Value, json};
use tokio::{fs::File, io::AsyncWriteExt as _};

use super::{Answer, not_found, refuse, with_status};
use crate::{control::Query, json::Json, keys::Holder, place::Secure, surface::Surface};

/// Where archives are sent to. The address is signed, since SDKs send no key there.
pub(crate) const UPLOADS: &str = "/templates-files";
/// An address can be used for so long.
const LIFE: SignedDuration = SignedDuration::from_hours(1);
/// The largest archive.
const LARGEST: u64 = 8 << 30;
/// All archives together; beyond, those go first that were not used for longest.
const MOST: u64 = 16 << 30;

/// Archives on disk.
#[derive(Debug)]
pub(crate) struct Uploads {
    directory: PathBuf,
    /// Signs addresses. A new one each time the host starts: addresses do not last anyway.
    key: [u8; 32],
}

impl Uploads {
    pub(crate) fn open(directory: PathBuf) -> Result<Self> {
        let unusable = |error| Error::io(format!("use `{}`", directory.display()), error);
        fs::create_dir_all(&directory).map_err(unusable)?;
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| Error::internal("make a key for addresses").with_source(error))?;
        Ok(Self { directory, key })
    }

    /// The archive of a hash, which is used now.
    pub(crate) fn find(&self, hash: &str) -> Option<PathBuf> {
        let path = self.directory.join(hash);
        let file = fs::File::options().write(true).open(&path).ok()?;
        // The time only says what goes first when there is too much.
        let _ = file.set_modified(SystemTime::now());
        Some(path)
    }

    fn signature(&self, hash: &str, until: i64) -> String {
        blake3::keyed_hash(&self.key, format!("{hash} {until}").as_bytes()).to_hex().to_string()
    }

    fn is_signed(&self, hash: &str, signed: &Signed) -> bool {
        let right = self.signature(hash, signed.expires);
        crate::keys::is_same(signed.signature.as_bytes(), &right) && Timestamp::now().as_second() <= signed.expires
    }

    /// Removes archives beyond what is kept.
    fn shrink(&self) -> io::Result<()> {
        let mut archives = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            archives.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), entry.path()));
        }
        archives.sort();
        let mut total: u64 = archives.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in archives {
            if total <= MOST {
                break;
            }
            fs::remove_file(path)?;
            total -= size;
        }
        Ok(())
    }
}

/// What makes an address good.
#[derive(Debug)]
struct Signed {
    expires: i64,
    signature: String,
}

/// Whether an archive is here, and where to send it.
pub(super) async fn link(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    secure: Option<Extension<Secure>>,
    UrlPath((template, hash)): UrlPath<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<(StatusCode, Json<Value>)> {
    holder.require(Need::Admin)?;
    let templates = surface.templates().await?;
    check_hash(&hash)?;
    if templates.catalogue.view().template(&template).is_none() {
        return Err(not_found(&template));
    }
    let until = (Timestamp::now() + LIFE).as_second();
    let signature = templates.uploads.signature(&hash, until);
    let origin = origin(&uri, &headers, secure.is_some_and(|Extension(Secure(secure))| secure))?;
    let url = format!("{origin}{UPLOADS}/{hash}?expires={until}&signature={signature}");
    let present = templates.uploads.find(&hash).is_some();
    Ok((StatusCode::CREATED, Json(json!({ "present": present, "url": url }))))
}

/// The address the caller reached us by.
fn origin(uri: &Uri, headers: &HeaderMap, secure: bool) -> Answer<String> {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = uri.authority().map(http::uri::Authority::as_str).or_else(|| said(header::HOST.as_str()));
    let host = host.ok_or_else(|| refuse("the request names no host"))?;
    let scheme = said("x-forwarded-proto").filter(|scheme| matches!(*scheme, "http" | "https"));
    Ok(format!("{}://{host}", scheme.unwrap_or(if secure { "https" } else { "http" })))
}

/// Takes an archive.
pub(crate) async fn receive(
    State(surface): State<Arc<Surface>>,
    UrlPath(hash): UrlPath<String>,
    query: Query,
    body: Body,
) -> Answer<StatusCode> {
    let templates = surface.templates().await?;
    check_hash(&hash)?;
    let signed = Signed {
        expires: query
            .number("expires", 0, i64::MAX.unsigned_abs())?
            .and_then(|until| i64::try_from(until).ok())
            .unwrap_or(0),
        signature: query.text("signature").unwrap_or_default().to_owned(),
    };
    if !templates.uploads.is_signed(&hash, &signed) {
        return Err(with_status(
            StatusCode::FORBIDDEN,
            "the address is not one of ours, or its time is over (build again)",
        ));
    }
    let draft = Draft(templates.uploads.directory.join(format!("{hash}.{}.new", super::random_id()?)));
    store(body, &draft.0).await?;
    let place = templates.uploads.directory.join(&hash);
    fs::rename(&draft.0, &place).map_err(unwritable)?;
    templates.uploads.shrink().map_err(unwritable)?;
    Ok(StatusCode::OK)
}

/// An archive on its way; what is not finished goes away.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

async fn store(body: Body, path: &Path) -> Answer<()> {
    let mut file = File::create(path).await.map_err(unwritable)?;
    let mut stream = body.into_data_stream();
    let mut total = 0_u64;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| refuse(format!("the upload broke off: {error}")))?;
        total += chunk.len() as u64;
        if total > LARGEST {
            return Err(with_status(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the archive has more than 8 GiB (copy less, or ignore files)",
            ));
        }
        file.write_all(&chunk).await.map_err(unwritable)?;
    }
    file.flush().await.map_err(unwritable)?;
    file.sync_all().await.map_err(unwritable)?;
    Ok(())
}

fn unwritable(error: io::Error) -> Error {
    Error::io("keep the files of a template", error)
}

fn check_hash(hash: &str) -> Answer<()> {
    if hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(());
    }
    Err(refuse("the hash of files is 64 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_good_for_one_hash_and_a_time() {
        let uploads = Uploads { directory: PathBuf::new(), key: [7; 32] };
        let later = Timestamp::now().as_second() + 60;
        let signed = |hash: &str, expires| Signed { expires, signature: uploads.signature(hash, expires) };
        assert!(uploads.is_signed("a", &signed("a", later)));
        assert!(!uploads.is_signed("b", &signed("a", later)));
        assert!(!uploads.is_signed("a", &signed("a", Timestamp::now().as_second() - 1)));
        assert!(!uploads.is_signed("a", &Signed { expires: later + 1, ..signed("a", later) }));
    }
}
