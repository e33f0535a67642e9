//! Paths of files, as whoever a call is for means them.

use std::path::{Path, PathBuf};

use sandbar_core::{Error, Result, UserAccount};

use super::account::{clean, resolve};
use crate::{surface::Surface, visitor::Visitor};

/// What a sandbox has there comes from its kernel and is in none of its files.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Paths of one user.
#[derive(Clone, Debug)]
pub(super) struct Locator {
    account: UserAccount,
    workdir: Option<String>,
}

impl Surface {
    /// Paths as `user` of the sandbox means them.
    pub(super) async fn locator(&self, visitor: &Visitor, user: &str) -> Result<Locator> {
        Ok(Locator::new(self.find_account(&visitor.session, user).await?, visitor))
    }
}

impl Locator {
    pub(super) fn new(account: UserAccount, visitor: &Visitor) -> Self {
        Self { account, workdir: visitor.note.workdir.clone() }
    }

    /// User and group of what is made.
    pub(super) fn owner(&self) -> (u32, u32) {
        (self.account.uid, self.account.gid)
    }

    /// The absolute path somebody means, without `.` and `..`.
    pub(super) fn resolve(&self, path: &str) -> Result<PathBuf> {
        let path = if path.is_empty() { self.workdir.as_deref().unwrap_or_default() } else { path };
        let whole = resolve(path, &self.account)?;
        if whole.contains('\0') {
            return Err(Error::invalid("path", format!("path contains invalid characters: {}", whole.escape_debug())));
        }
        Ok(clean(&whole).into())
    }

    /// As [`resolve`](Self::resolve), for what is made, moved or removed there.
    pub(super) fn resolve_for_change(&self, path: &str) -> Result<PathBuf> {
        let path = self.resolve(path)?;
        match KERNELS.iter().find(|place| path.starts_with(place)) {
            None => Ok(path),
            Some(place) => Err(not_seen(&path, place)),
        }
    }
}

fn not_seen(path: &Path, place: &str) -> Error {
    let what = format!("`{}` cannot be changed: what a sandbox has in `{place}` comes from its kernel", path.display());
    Error::invalid("path", what).with_hint("use another place, such as `/tmp`, or a command")
}

#[cfg(test)]
mod tests {
    use sandbar_core::ErrorCode;

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
        for (path, may_change) in
            [("/dev/shm/x", false), ("/tmp/../proc", false), ("/sys", false), ("/device", true), ("dev", true)]
        {
            assert_eq!(locator.resolve_for_change(path).is_ok(), may_change, "{path}");
        }
        locator.workdir = Some("/app".into());
        assert_eq!(locator.resolve("").unwrap(), Path::new("/app"));
    }
}
