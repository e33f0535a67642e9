//! Adapts the tree of a new session: the host name in `/etc`, and the owner of `/workspace`.
//!
//! Runs before the session can be used and so before its first snapshot: no diff shows it.

use std::{io::Read as _, path::Path};

use sandbar_core::{Error, ErrorCode, Result, RootRights, SessionId, WriteOptions};
use sandbar_tree::session_tree::{SessionTree, WORKING_DIRECTORY};

use super::{root::Root, users};

const HOSTS: &str = "/etc/hosts";
const HOST_NAME: &str = "/etc/hostname";

/// Size up to which `/etc/hosts` and `/etc/hostname` are read. Longer files are not changed.
const MAX_BYTES: u64 = 64 * 1024;

/// `/etc/hosts` for a tree without one.
const DEFAULT_HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n";

/// Changes to apply to the tree of a new session.
#[derive(Debug)]
pub(super) struct Furnishing<'a> {
    pub(super) session: &'a SessionId,
    pub(super) rights: RootRights,
    pub(super) workspace_user: Option<&'a str>,
}

impl Furnishing<'_> {
    /// Applies the changes. Logs failures only: an image may have anything at these paths, and its
    /// sessions work without the changes.
    pub(super) fn apply(&self, root: &Root) {
        let done = SessionTree::open(&root.path, root.owners.clone()).map(|tree| {
            let mut outcomes = vec![name_host(&tree, self.session.host_name())];
            outcomes.extend(
                self.workspace_user
                    .map(|user| self.give_workspace(&tree, user)),
            );
            outcomes.into_iter().collect::<Result<()>>()
        });
        if let Err(error) = done.flatten() {
            tracing::warn!(session = %self.session, error = error.chain(), "could not adapt the tree of a new session");
        }
    }

    fn give_workspace(&self, tree: &SessionTree, user: &str) -> Result<()> {
        let account = match users::find(tree, user) {
            Ok(account) => account,
            Err(error) if error.code() == ErrorCode::UserNotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // Bare root lacks CAP_DAC_OVERRIDE and must still be able to write to the directory.
        let mode = if self.rights == RootRights::Bare {
            0o777
        } else {
            0o755
        };
        match tree.give_empty_directory(
            Path::new(WORKING_DIRECTORY),
            (account.uid, account.gid),
            mode,
        ) {
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(()),
            given => given.map(|_| ()),
        }
    }
}

/// Writes the host name to `/etc/hostname`, and replaces the old one in `/etc/hosts`.
fn name_host(tree: &SessionTree, name: &str) -> Result<()> {
    let before = read(tree, HOST_NAME)?.unwrap_or_default();
    let hosts = read(tree, HOSTS)?.unwrap_or_else(|| DEFAULT_HOSTS.to_owned());
    write(tree, HOSTS, &rename(&hosts, before.trim(), name))?;
    write(tree, HOST_NAME, &format!("{name}\n"))
}

/// Returns `hosts` with `before` replaced by `name` on loopback lines, or with a line added.
fn rename(hosts: &str, before: &str, name: &str) -> String {
    let mut is_named = false;
    let mut lines: Vec<String> = hosts
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next().unwrap_or_default();
            let names: Vec<&str> = words
                .map(|word| if word == before { name } else { word })
                .collect();
            let is_loopback = address.starts_with("127.") || address == "::1";
            if !is_loopback || !names.contains(&name) {
                return line.to_owned();
            }
            is_named = true;
            format!("{address}\t{}", names.join(" "))
        })
        .collect();
    if !is_named {
        lines.push(format!("127.0.0.1\t{name}"));
    }
    lines.join("\n") + "\n"
}

/// Reads a file; `None` if it does not exist.
fn read(tree: &SessionTree, path: &str) -> Result<Option<String>> {
    let file = match tree.open_file(Path::new(path)) {
        Ok((file, _)) => file,
        Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    let count = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    if count.map_err(|error| Error::io(format!("read `{path}` of the session"), error))? as u64
        > MAX_BYTES
    {
        return Err(Error::invalid(
            "path",
            format!("`{path}` of the session is longer than {MAX_BYTES} bytes"),
        ));
    }
    Ok(Some(text))
}

fn write(tree: &SessionTree, path: &str, text: &str) -> Result<()> {
    let mut draft = tree.draft(
        Path::new(path),
        WriteOptions {
            create_dirs: true,
            ..WriteOptions::default()
        },
    )?;
    draft.write(text.as_bytes())?;
    draft.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_replaces_the_old_one() {
        let base = "127.0.0.1\tlocalhost sandbar\n::1\tlocalhost\n10.0.0.1 sandbar\n";
        let first = rename(base, "sandbar", "s1");
        assert_eq!(
            first,
            "127.0.0.1\tlocalhost s1\n::1\tlocalhost\n10.0.0.1 sandbar\n"
        );
        assert_eq!(
            rename(&first, "s1", "s2"),
            "127.0.0.1\tlocalhost s2\n::1\tlocalhost\n10.0.0.1 sandbar\n"
        );
        assert_eq!(rename(&first, "s1", "s1"), first);
    }

    #[test]
    fn host_name_is_added_to_hosts_that_lack_it() {
        for (hosts, before) in [
            (DEFAULT_HOSTS, ""),
            (DEFAULT_HOSTS, "gone"),
            ("", ""),
            ("# none\n", "sandbar"),
        ] {
            assert_eq!(
                rename(hosts, before, "s1"),
                format!("{hosts}127.0.0.1\ts1\n"),
                "{hosts} {before}"
            );
        }
        assert_eq!(
            rename("127.0.0.1 localhost", "", "s1"),
            "127.0.0.1 localhost\n127.0.0.1\ts1\n"
        );
    }
}
