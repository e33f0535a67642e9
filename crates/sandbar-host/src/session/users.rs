//! Users of a session, looked up in its own files.

use std::{io::Read, path::Path};

use sandbar_core::{Error, ErrorCode, Result, SessionId, UserAccount};
use sandbar_storage::SessionTree;

use super::Session;
use crate::{Host, host::Inner, verb::Verb};

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// What is read of each file. They are the session's, which may write what it likes.
const MOST: u64 = 1024 * 1024;

impl Host {
    /// Who a user of a session is, by name or number.
    pub async fn user_account(&self, id: &SessionId, user: &str) -> Result<UserAccount> {
        let user = user.to_owned();
        self.with_tree(Verb::UserAccount, id, Path::new(PASSWD), move |tree, _| find(tree, &user)).await
    }
}

impl Inner {
    /// A user of a session the caller has entered.
    pub(super) fn account(&self, session: &Session, user: &str) -> Result<UserAccount> {
        find(&session.tree(self)?, user)
    }
}

pub(super) fn find(tree: &SessionTree, user: &str) -> Result<UserAccount> {
    UserAccount::find(user, &read(tree, PASSWD)?, &read(tree, GROUP)?)
}

/// The text of a file; nothing where there is none.
fn read(tree: &SessionTree, path: &str) -> Result<String> {
    let file = match tree.open_file(Path::new(path)) {
        Ok((file, _)) => file,
        Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let count = file.take(MOST + 1).read_to_end(&mut bytes);
    if count.map_err(|error| Error::io(format!("read `{path}` of the session"), error))? as u64 > MOST {
        return Err(Error::invalid("user", format!("`{path}` of the session is too long to look for a user in"))
            .with_hint("leave it out to run as root of the sandbox"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
