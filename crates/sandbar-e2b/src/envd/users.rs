//! The user a call acts as, and what paths mean to that user.

use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, Result, SessionId, UserAccount};

use super::Envd;
use crate::{auth::SessionCaller, rest::rpc_error, sandboxes::DEFAULT_USER};

impl Envd {
    /// Returns the user a call acts as.
    pub(super) async fn account(
        &self,
        caller: &SessionCaller,
    ) -> Result<UserAccount, ConnectError> {
        self.find_account(&caller.session, &caller.user)
            .await
            .map_err(|error| match error.code() {
                ErrorCode::UserNotFound | ErrorCode::InvalidArgument => {
                    ConnectError::unauthenticated(format!("invalid username: '{}'", caller.user))
                }
                _ => rpc_error(error),
            })
    }

    /// Returns a user of a sandbox. If the default user does not exist, it is root.
    pub(super) async fn find_account(
        &self,
        session: &SessionId,
        user: &str,
    ) -> Result<UserAccount> {
        match self.host.user_account(session, user).await {
            Err(error) if error.code() == ErrorCode::UserNotFound && user == DEFAULT_USER => {
                self.host.user_account(session, "root").await
            }
            found => found,
        }
    }
}

/// Resolves a path for a user: `~` is the home, and relative paths start there.
pub(super) fn resolve(path: &str, account: &UserAccount) -> Result<String> {
    let home = account.home.trim_end_matches('/');
    if let Some(rest) = path.strip_prefix('~') {
        if !rest.is_empty() && !rest.starts_with('/') {
            let why = "cannot expand user-specific home dir";
            let what = format!(
                "failed to expand path '{path}' for user '{}': {why}",
                account.name
            );
            return Err(Error::invalid("path", what));
        }
        return Ok(clean(&format!("{home}/{rest}")));
    }
    Ok(if path.starts_with('/') {
        path.to_owned()
    } else {
        clean(&format!("{home}/{path}"))
    })
}

/// Normalises an absolute path lexically.
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
    fn path_is_resolved_against_the_home() {
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
