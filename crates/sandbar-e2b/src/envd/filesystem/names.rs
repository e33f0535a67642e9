//! Names of users and groups, as the sandbox itself has them.

use std::{collections::HashMap, io::Read as _, path::Path};

use sandbar_core::{ErrorCode, Result, SessionId};
use sandbar_host::Host;

/// More than any list of users; what comes after it is shown by number.
const LARGEST: u64 = 1 << 20;

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

    /// The name of a user, or the number where there is none.
    pub(super) fn user(&self, number: u32) -> String {
        self.users.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }

    pub(super) fn group(&self, number: u32) -> String {
        self.groups.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }
}

/// The text of a file; what cannot be read has no names in it.
async fn read(host: &Host, session: &SessionId, path: &str) -> Result<String> {
    let file = match host.open_file(session, Path::new(path)).await {
        Ok((file, _)) => file,
        Err(error) if matches!(error.code(), ErrorCode::FileNotFound | ErrorCode::InvalidArgument) => {
            return Ok(String::new());
        }
        Err(error) => return Err(error),
    };
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = read.await.ok().and_then(std::result::Result::ok).unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Both files have the name in the first field and the number in the third. The first line of a number counts.
fn numbered(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(number)) = (fields.next(), fields.nth(1).and_then(|number| number.parse().ok())) {
            names.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_first_name_and_broken_lines_have_none() {
        let names = numbered("root:x:0:0::/root:/bin/sh\ntoor:x:0:0\n# user:x:y\nuser:x:1000\n::\n");
        assert_eq!(names, HashMap::from([(0, "root".to_owned()), (1000, "user".to_owned())]));
    }
}
