//! Facts about the host that an attempt gets: `NAME=VALUE` arguments.
//!
//! | fact | meaning |
//! |---|---|
//! | `secret` | a text that is in every place below and nowhere in the box |
//! | `host-file` | path, on the host, of a file that holds the secret |
//! | `shared-file` | path, on the host, of a file in `/dev/shm` that holds the secret |
//! | `host-pid` | a process of the host, with the secret in its environment |
//! | `abstract-socket` | name of an abstract socket; sends a descriptor to every client |
//! | `datagram-socket` | name of an abstract socket for datagrams |
//! | `control-socket` | the same under a name `runsc` would use |
//! | `socket` | path, on the host, of a socket |
//! | `port` | TCP port of 127.0.0.1 on the host |
//! | `key` | serial number of a key that holds the secret |
//! | `key-name` | its description |
//! | `segment` | id of a System V shared memory segment that holds the secret |
//! | `queue` | name of a POSIX message queue of the host |
//! | `base-file` | path, in the box, of a file of the shared base |
//! | `set-user-file` | path, in the box, of a set-user-id copy of this program, not of root |
//! | `set-root-file` | path, in the box, of a set-user-id copy of this program, of root |

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::verdict::Inconclusive;

#[derive(Debug)]
pub(crate) struct Facts {
    values: BTreeMap<String, String>,
    /// Descriptors that were open when the program started, standard streams included.
    pub(crate) inherited: Vec<i32>,
}

impl Facts {
    pub(crate) fn parse(
        arguments: impl Iterator<Item = String>,
        inherited: Vec<i32>,
    ) -> Result<Self, Inconclusive> {
        let values = arguments
            .map(|argument| match argument.split_once('=') {
                Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
                None => Err(Inconclusive(format!(
                    "argument `{argument}` is not of the form NAME=VALUE"
                ))),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { values, inherited })
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, Inconclusive> {
        self.values
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| Inconclusive(format!("fact `{name}` is missing")))
    }

    pub(crate) fn path(&self, name: &str) -> Result<&Path, Inconclusive> {
        self.text(name).map(Path::new)
    }

    pub(crate) fn number(&self, name: &str) -> Result<i32, Inconclusive> {
        self.text(name)?
            .parse()
            .map_err(|_| Inconclusive(format!("fact `{name}` is not a number")))
    }

    /// Returns whether these bytes contain the secret.
    pub(crate) fn finds_secret(&self, bytes: &[u8]) -> Result<bool, Inconclusive> {
        let secret = self.text("secret")?.as_bytes();
        if secret.is_empty() {
            return Err(Inconclusive("fact `secret` is empty".to_owned()));
        }
        Ok(bytes.windows(secret.len()).any(|window| window == secret))
    }
}

/// Descriptors of this process, found by asking for each, which needs neither `/proc` nor a
/// descriptor.
pub(crate) fn open_descriptors() -> Vec<i32> {
    (0..4096)
        .filter(|number| crate::call::call!(SYS_fcntl, *number, libc::F_GETFD).is_ok())
        .collect()
}

/// Numbered entries of `/proc`.
pub(crate) fn visible_processes() -> Result<Vec<PathBuf>, Inconclusive> {
    let entries = std::fs::read_dir("/proc")?
        .flatten()
        .map(|entry| entry.path());
    let numbered = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.parse::<u32>().is_ok())
    };
    Ok(entries.filter(numbered).collect())
}
