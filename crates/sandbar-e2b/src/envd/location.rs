//! What paths mean to whoever a call is for.

use std::path::PathBuf;

use sandbar_core::{Error, ErrorCode, Result, UserAccount};

use crate::{sandbox::DEFAULT_USER, surface::Surface, visitor::Visitor};

/// Paths of one user.
#[derive(Clone, Debug)]
pub(super) struct Locator {
    pub(super) account: UserAccount,
    workdir: Option<String>,
}

impl Surface {
    /// Paths as `user` of the sandbox means them. A sandbox that has no default user is its root's.
    pub(super) async fn locator(&self, visitor: &Visitor, user: &str) -> Result<Locator> {
        let found = match self.host.user_account(&visitor.session, user).await {
            Err(error) if error.code() == ErrorCode::UserNotFound && user == DEFAULT_USER => {
                self.host.user_account(&visitor.session, "root").await
            }
            found => found,
        };
        Ok(Locator { account: found?, workdir: visitor.note.workdir.clone() })
    }
}

impl Locator {
    /// User and group of what is made.
    pub(super) fn owner(&self) -> Option<(u32, u32)> {
        Some((self.account.uid, self.account.gid))
    }

    /// The absolute path somebody means, without `.` and `..`: what is not absolute begins at the home, and so does `~`.
    pub(super) fn resolve(&self, path: &str) -> Result<PathBuf> {
        let path = if path.is_empty() { self.workdir.as_deref().unwrap_or_default() } else { path };
        let home = &self.account.home;
        let whole = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => format!("{home}/{rest}"),
            Some(_) => {
                return Err(Error::invalid(
                    "path",
                    format!(
                        "failed to expand path '{path}' for user '{}': cannot expand user-specific home dir",
                        self.account.name
                    ),
                ));
            }
            None if path.starts_with('/') => path.to_owned(),
            None => format!("{home}/{path}"),
        };
        if whole.contains('\0') {
            return Err(Error::invalid("path", format!("path contains invalid characters: {}", whole.escape_debug())));
        }
        Ok(clean(&whole))
    }
}

/// The shortest absolute path that says the same, by its text alone.
fn clean(path: &str) -> PathBuf {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    PathBuf::from(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn paths_begin_at_the_home_of_the_user() {
        let account = UserAccount::find("user", "user:x:1000:1000::/home/user:/bin/bash", "").unwrap();
        let mut locator = Locator { account, workdir: None };
        for (path, meant) in [
            ("", "/home/user"),
            ("a//b/./c", "/home/user/a/b/c"),
            ("../x", "/home/x"),
            ("~", "/home/user"),
            ("~/x", "/home/user/x"),
            ("/a/../../b/", "/b"),
            ("/", "/"),
        ] {
            assert_eq!(locator.resolve(path).unwrap(), Path::new(meant), "{path}");
        }
        for refused in ["~bob", "~bob/x", "a\0b"] {
            assert_eq!(locator.resolve(refused).unwrap_err().code(), ErrorCode::InvalidArgument, "{refused}");
        }
        locator.workdir = Some("/app".into());
        assert_eq!(locator.resolve("").unwrap(), Path::new("/app"));
    }
}
