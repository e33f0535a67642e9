//! Traffic tokens: each admits connections to the ports of one session, and nothing else.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use jiff::Timestamp;
use sandbar_core::{Error, Result, SessionId};

const KEY_BYTES: usize = 32;

/// Key that traffic tokens are derived from. Stored in the data directory, so that tokens stay
/// valid over restarts.
pub(crate) struct TrafficKey([u8; KEY_BYTES]);

impl TrafficKey {
    /// Reads the key, or creates one.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let unusable = |error| Error::io(format!("use traffic key `{}`", path.display()), error);
        match fs::read(path) {
            Ok(bytes) => bytes.try_into().map(Self).map_err(|_| {
                Error::internal(format!("traffic key `{}` has the wrong length", path.display()))
                    .with_hint("remove the file; a new one is created and earlier traffic tokens become invalid")
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut key = [0; KEY_BYTES];
                getrandom::fill(&mut key).map_err(|source| {
                    Error::internal("no random bytes for a traffic key").with_source(source)
                })?;
                write_atomically(path, &key).map_err(unusable)?;
                Ok(Self(key))
            }
            Err(error) => Err(unusable(error)),
        }
    }

    /// Returns the token of a session. A later session with the same id gets another one.
    pub(crate) fn token(&self, id: &SessionId, created: Timestamp) -> TrafficToken {
        let session = format!("{id}\0{}", created.as_nanosecond());
        TrafficToken(format!(
            "sbt_{}",
            blake3::keyed_hash(&self.0, session.as_bytes()).to_hex()
        ))
    }
}

/// Writes a file by renaming a complete temporary one.
fn write_atomically(path: &Path, key: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(key)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

impl fmt::Debug for TrafficKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrafficKey(…)")
    }
}

/// A traffic token.
#[derive(Clone)]
pub struct TrafficToken(String);

impl TrafficToken {
    /// Returns the secret.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares with a presented token, in constant time.
    pub fn is(&self, presented: &[u8]) -> bool {
        blake3::hash(presented) == blake3::hash(self.0.as_bytes())
    }
}

impl fmt::Debug for TrafficToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrafficToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn traffic_key_is_created_once_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("traffic.key");
        let made = TrafficKey::open(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(TrafficKey::open(&path).unwrap().0, made.0);
        assert_ne!(
            TrafficKey::open(&directory.path().join("other.key"))
                .unwrap()
                .0,
            made.0
        );
        fs::write(&path, "short").unwrap();
        assert!(TrafficKey::open(&path).unwrap_err().hint().is_some());
    }
}
