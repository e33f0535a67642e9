//! Merging copied directories with those of the sandbox.
//!
//! As in Docker and E2B, existing directories keep their owner, and links to directories are
//! followed (`/lib` is `/usr/lib`).

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use sandbar_core::{EntryType, ErrorCode, MakeDirOptions, Result, SessionId};
use sandbar_host::Host;

/// A directory of the sandbox with all links resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResolvedDir {
    path: PathBuf,
    exists: bool,
}

impl ResolvedDir {
    async fn of(host: &Host, session: &SessionId, path: &Path) -> Result<Self> {
        let mut resolved = Self {
            path: "/".into(),
            exists: true,
        };
        for part in path.components() {
            if let Component::Normal(name) = part {
                resolved = resolved.child(host, session, name).await?;
            }
        }
        Ok(resolved)
    }

    async fn child(&self, host: &Host, session: &SessionId, name: &OsStr) -> Result<Self> {
        let path = self.path.join(name);
        if !self.exists {
            return Ok(Self {
                path,
                exists: false,
            });
        }
        match host.file_details(session, &path).await {
            Ok(found) if found.stat.entry == EntryType::Directory => {
                Ok(Self { path, exists: true })
            }
            Ok(found) => match found
                .link_end
                .filter(|end| end.entry == EntryType::Directory)
            {
                Some(end) => Ok(Self {
                    path: end.path,
                    exists: true,
                }),
                None => Ok(Self {
                    path,
                    exists: false,
                }),
            },
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(Self {
                path,
                exists: false,
            }),
            Err(error) => Err(error),
        }
    }
}

/// Directories of an archive with their modes; implied ones have none.
pub(super) type Directories = BTreeMap<PathBuf, Option<u32>>;

/// Target of every directory of an archive.
#[derive(Debug)]
pub(super) struct Layout {
    resolved: BTreeMap<PathBuf, ResolvedDir>,
    modes: Directories,
}

impl Layout {
    /// Resolves the directories for a copy to `target`, which is created if necessary.
    pub(super) async fn plan(
        host: &Host,
        session: &SessionId,
        target: &Path,
        modes: Directories,
    ) -> Result<Self> {
        let target = ResolvedDir::of(host, session, target).await?;
        if !target.exists {
            host.make_dir(
                session,
                &target.path,
                MakeDirOptions {
                    create_dirs: true,
                    owner: None,
                },
            )
            .await?;
        }
        let mut resolved = BTreeMap::from([(PathBuf::new(), target)]);
        // In order: parents come before their children.
        for directory in modes.keys() {
            let Some((parent, name)) = directory.parent().zip(directory.file_name()) else {
                continue;
            };
            let Some(parent) = resolved.get(parent) else {
                continue;
            };
            let child = parent.child(host, session, name).await?;
            resolved.insert(directory.clone(), child);
        }
        Ok(Self { resolved, modes })
    }

    /// Returns the directories to create, relative to the root, with their modes.
    pub(super) fn new_directories(&self) -> impl Iterator<Item = (&Path, Option<u32>)> {
        let new = self
            .modes
            .iter()
            .filter_map(|(name, mode)| Some((self.resolved.get(name)?, *mode)));
        new.filter(|(directory, _)| !directory.exists)
            .map(|(directory, mode)| (relative_to_root(&directory.path), mode))
    }

    /// Returns the target of a file of the archive, relative to the root.
    pub(super) fn name(&self, name: &Path) -> Option<PathBuf> {
        let directory = self.resolved.get(name.parent()?)?;
        Some(relative_to_root(&directory.path).join(name.file_name()?))
    }
}

fn relative_to_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
