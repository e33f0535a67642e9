//! Whom a call is for, and what paths mean to them.

use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, Result, SessionId, UserAccount};

use crate::{answer::rpc_error, sandbox::DEFAULT_USER, surface::Surface, visitor::Visitor};

impl Surface {
    /// The user a call is for.
    pub(super) async fn account(&self, visitor: &Visitor) -> Result<UserAccount, ConnectError> {
        self.find_account(&visitor.session, &visitor.user).await.map_err(|error| match error.code() {
            ErrorCode::UserNotFound | ErrorCode::InvalidArgument => {
                ConnectError::unauthenticated(format!("invalid username: '{}'", visitor.user))
            }
            _ => rpc_error(error),
        })
    }

    /// A user of a sandbox. Where nobody has made the default user, it is root.
    pub(super) async fn find_account(&self, session: &SessionId, user: &str) -> Result<UserAccount> {
        match self.host.user_account(session, user).await {
            Err(error) if error.code() == ErrorCode::UserNotFound && user == DEFAULT_USER => {
                self.host.user_account(session, "root").await
            }
            found => found,
        }
    }
}

/// What a path means to a user: `~` is their home, and what is not absolute is below it.
pub(super) fn resolve(path: &str, account: &UserAccount) -> Result<String> {
    let home = account.home.trim_end_matches('/');
    if let Some(rest) = path.strip_prefix('~') {
        if !rest.is_empty() && !rest.starts_with('/') {
            let why = "cannot expand user-specific home dir";
            let what = format!("failed to expand path '{path}' for user '{}': {why}", account.name);
            return Err(Error::invalid("path", what));
        }
        return Ok(clean(&format!("{home}/{rest}")));
    }
    Ok(if path.starts_with('/') { path.to_owned() } else { clean(&format!("{home}/{path}")) })
}

/// The shortest way to say the same absolute path, by its text alone.
pub(super) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_user() {
        let user = UserAccount::find("user", "user:x:1000:1000::/home/user:/bin/bash", "").unwrap();
        for (path, meant) in [
            ("", "/home/user"),
            ("a/./b", "/home/user/a/b"),
            ("../other", "/home/other"),
            ("~", "/home/user"),
            ("~/x", "/home/user/x"),
            ("/as/../is", "/as/../is"),
        ] {
            assert_eq!(resolve(path, &user).unwrap(), meant, "{path}");
        }
        let error = resolve("~bob/x", &user).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
    }
}
