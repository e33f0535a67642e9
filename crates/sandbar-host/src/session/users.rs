//! Users of a session, looked up in its `/etc/passwd` and `/etc/group`.

use std::{io::Read, path::Path};

use sandbar_core::{Error, ErrorCode, Result, SessionId, UserAccount};
use sandbar_tree::SessionTree;

use super::Session;
use crate::{Host, engine::Engine, verb::Verb};

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// Size up to which each file is read. Their content is untrusted.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

impl Host {
    /// Looks up a user of a session, by name or uid.
    pub async fn user_account(&self, id: &SessionId, user: &str) -> Result<UserAccount> {
        let user = user.to_owned();
        self.with_tree(Verb::UserAccount, id, Path::new(PASSWD), move |tree, _| {
            find(tree, &user)
        })
        .await
    }
}

impl Engine {
    /// Looks up a user of a session. The caller holds a shared entry.
    pub(super) fn account(&self, session: &Session, user: &str) -> Result<UserAccount> {
        find(&session.tree(self)?, user)
    }
}

pub(super) fn find(tree: &SessionTree, user: &str) -> Result<UserAccount> {
    UserAccount::find(user, &read(tree, PASSWD)?, &read(tree, GROUP)?)
}

/// Reads a file; empty if it does not exist.
fn read(tree: &SessionTree, path: &str) -> Result<String> {
    let file = match tree.open_file(Path::new(path)) {
        Ok((file, _)) => file,
        Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let count = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if count.map_err(|error| Error::io(format!("read `{path}` of the session"), error))? as u64
        > MAX_FILE_BYTES
    {
        return Err(Error::invalid(
            "user",
            format!("`{path}` of the session is longer than {MAX_FILE_BYTES} bytes"),
        )
        .with_hint("omit `user` to run as root of the sandbox"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
