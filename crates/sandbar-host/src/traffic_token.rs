//! Tokens that open the ports of one session, and nothing else.

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

/// What the tokens of this host are made with. It is kept in the data directory, so that a token outlives the host.
pub(crate) struct TrafficKey([u8; KEY_BYTES]);

impl TrafficKey {
    /// Reads the key, or makes one.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let unusable = |error| Error::io(format!("use traffic key `{}`", path.display()), error);
        match fs::read(path) {
            Ok(bytes) => bytes.try_into().map(Self).map_err(|_| {
                Error::internal(format!("traffic key `{}` is broken", path.display()))
                    .with_hint("remove the file: a new one is made, and traffic tokens given out before open nothing")
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut key = [0; KEY_BYTES];
                getrandom::fill(&mut key).map_err(|source| {
                    Error::internal("the kernel gives no random bytes for a key").with_source(source)
                })?;
                keep(path, &key).map_err(unusable)?;
                Ok(Self(key))
            }
            Err(error) => Err(unusable(error)),
        }
    }

    /// The token of a session. Another session that gets the same name later has another one.
    pub(crate) fn token(&self, id: &SessionId, created: Timestamp) -> TrafficToken {
        let session = format!("{id}\0{}", created.as_nanosecond());
        TrafficToken(format!("sbt_{}", blake3::keyed_hash(&self.0, session.as_bytes()).to_hex()))
    }
}

/// Writes a file whole or not at all.
fn keep(path: &Path, key: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(key)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

impl fmt::Debug for TrafficKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrafficKey(…)")
    }
}

/// A secret that opens the ports of one session.
#[derive(Clone)]
pub struct TrafficToken(String);

impl TrafficToken {
    /// The token itself, to be given to whoever may reach the session.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. It takes the same time wherever the two differ.
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
    fn the_key_is_made_once_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("traffic.key");
        let made = TrafficKey::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(TrafficKey::open(&path).unwrap().0, made.0);
        assert_ne!(TrafficKey::open(&directory.path().join("other.key")).unwrap().0, made.0);
        fs::write(&path, "short").unwrap();
        assert!(TrafficKey::open(&path).unwrap_err().hint().is_some());
    }
}
