//! Resolving paths of files for the user a call acts as.

use std::path::{Path, PathBuf};

use sandbar_core::{Error, Result, UserAccount};

use super::{
    Envd,
    users::{clean, resolve},
};
use crate::auth::SessionCaller;

/// Directories whose contents come from the kernel of the sandbox and are in no volume.
const KERNEL_DIRECTORIES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Resolves the paths of one user.
#[derive(Clone, Debug)]
pub(super) struct Locator {
    account: UserAccount,
    workdir: Option<String>,
}

impl Envd {
    /// Returns a locator for a user of the sandbox.
    pub(super) async fn locator(&self, caller: &SessionCaller, user: &str) -> Result<Locator> {
        Ok(Locator::new(
            self.find_account(&caller.session, user).await?,
            caller,
        ))
    }
}

impl Locator {
    pub(super) fn new(account: UserAccount, caller: &SessionCaller) -> Self {
        Self {
            account,
            workdir: caller.note.workdir.clone(),
        }
    }

    /// Returns uid and gid of new files.
    pub(super) fn owner(&self) -> (u32, u32) {
        (self.account.uid, self.account.gid)
    }

    /// Returns the absolute path, without `.` and `..`.
    pub(super) fn resolve(&self, path: &str) -> Result<PathBuf> {
        let path = if path.is_empty() {
            self.workdir.as_deref().unwrap_or_default()
        } else {
            path
        };
        let whole = resolve(path, &self.account)?;
        if whole.contains('\0') {
            return Err(Error::invalid(
                "path",
                format!("path contains invalid characters: {}", whole.escape_debug()),
            ));
        }
        Ok(clean(&whole).into())
    }

    /// As [`resolve`](Self::resolve), for a path to create, move or remove. Refuses kernel
    /// directories.
    pub(super) fn resolve_for_change(&self, path: &str) -> Result<PathBuf> {
        let path = self.resolve(path)?;
        match KERNEL_DIRECTORIES
            .iter()
            .find(|directory| path.starts_with(directory))
        {
            None => Ok(path),
            Some(directory) => Err(not_writable(&path, directory)),
        }
    }
}

fn not_writable(path: &Path, directory: &str) -> Error {
    let what = format!(
        "`{}` cannot be changed: the files in `{directory}` come from the kernel of the sandbox",
        path.display()
    );
    Error::invalid("path", what).with_hint("use another directory, such as `/tmp`, or a command")
}

#[cfg(test)]
mod tests {
    use sandbar_core::ErrorCode;

    use super::*;

    #[test]
    fn path_is_resolved_and_kernel_directories_are_read_only() {
        let account =
            UserAccount::find("user", "user:x:1000:1000::/home/user:/bin/bash", "").unwrap();
        let mut locator = Locator {
            account,
            workdir: None,
        };
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
            assert_eq!(
                locator.resolve(refused).unwrap_err().code(),
                ErrorCode::InvalidArgument,
                "{refused}"
            );
        }
        for (path, may_change) in [
            ("/dev/shm/x", false),
            ("/tmp/../proc", false),
            ("/sys", false),
            ("/device", true),
            ("dev", true),
        ] {
            assert_eq!(
                locator.resolve_for_change(path).is_ok(),
                may_change,
                "{path}"
            );
        }
        locator.workdir = Some("/app".into());
        assert_eq!(locator.resolve("").unwrap(), Path::new("/app"));
    }
}
