//! Names of users and groups, from `/etc/passwd` and `/etc/group` of the sandbox.

use std::{collections::HashMap, io::Read as _, path::Path};

use sandbar_core::{ErrorCode, Result, SessionId};
use sandbar_host::Host;

/// Read limit; users beyond it are shown by number.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Names {
    pub(super) async fn of(host: &Host, session: &SessionId) -> Result<Self> {
        Ok(Self {
            users: numbered(&read(host, session, "/etc/passwd").await?),
            groups: numbered(&read(host, session, "/etc/group").await?),
        })
    }

    /// Returns the name of a user, or the number if it has none.
    pub(super) fn user(&self, number: u32) -> String {
        self.users
            .get(&number)
            .cloned()
            .unwrap_or_else(|| number.to_string())
    }

    pub(super) fn group(&self, number: u32) -> String {
        self.groups
            .get(&number)
            .cloned()
            .unwrap_or_else(|| number.to_string())
    }
}

/// Returns the text of a file; empty if it cannot be read.
async fn read(host: &Host, session: &SessionId, path: &str) -> Result<String> {
    let file = match host.open_file(session, Path::new(path)).await {
        Ok((file, _)) => file,
        Err(error)
            if matches!(
                error.code(),
                ErrorCode::FileNotFound | ErrorCode::InvalidArgument
            ) =>
        {
            return Ok(String::new());
        }
        Err(error) => return Err(error),
    };
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES)
            .read_to_end(&mut bytes)
            .map(|_| bytes)
    });
    let bytes = read
        .await
        .ok()
        .and_then(std::result::Result::ok)
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses either file: the name is the first field, the number the third. The first line with a
/// number takes precedence.
fn numbered(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(number)) = (
            fields.next(),
            fields.nth(1).and_then(|number| number.parse().ok()),
        ) {
            names.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_name_of_a_number_is_used_and_broken_lines_are_skipped() {
        let names =
            numbered("root:x:0:0::/root:/bin/sh\ntoor:x:0:0\n# user:x:y\nuser:x:1000\n::\n");
        assert_eq!(
            names,
            HashMap::from([(0, "root".to_owned()), (1000, "user".to_owned())])
        );
    }
}
