//! A directory that is copied into one that is there.
//!
//! As Docker and E2B do it: directories of the sandbox stay whose they are, and a link to a directory is followed (`/lib`
//! leads to `/usr/lib`).

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use sandbar_core::{EntryType, ErrorCode, MakeDirOptions, Result, SessionId};
use sandbar_host::Host;

/// Where a directory of the sandbox is, through all links, and whether it is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    is_there: bool,
}

impl Place {
    async fn of(host: &Host, session: &SessionId, path: &Path) -> Result<Self> {
        let mut place = Self { path: "/".into(), is_there: true };
        for part in path.components() {
            if let Component::Normal(name) = part {
                place = place.below(host, session, name).await?;
            }
        }
        Ok(place)
    }

    async fn below(&self, host: &Host, session: &SessionId, name: &OsStr) -> Result<Self> {
        let path = self.path.join(name);
        if !self.is_there {
            return Ok(Self { path, is_there: false });
        }
        match host.file_details(session, &path).await {
            Ok(found) if found.stat.entry == EntryType::Directory => Ok(Self { path, is_there: true }),
            Ok(found) => match found.link_end.filter(|end| end.entry == EntryType::Directory) {
                Some(end) => Ok(Self { path: end.path, is_there: true }),
                None => Ok(Self { path, is_there: false }),
            },
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(Self { path, is_there: false }),
            Err(error) => Err(error),
        }
    }
}

/// Directories of an archive by their names in it, with the modes it gives them; those it only implies have none.
pub(super) type Directories = BTreeMap<PathBuf, Option<u32>>;

/// Where the directories of an archive go.
#[derive(Debug)]
pub(super) struct Layout {
    places: BTreeMap<PathBuf, Place>,
    modes: Directories,
}

impl Layout {
    /// For a copy to `target`, which is made when it is not there.
    pub(super) async fn plan(host: &Host, session: &SessionId, target: &Path, modes: Directories) -> Result<Self> {
        let target = Place::of(host, session, target).await?;
        if !target.is_there {
            host.make_dir(session, &target.path, MakeDirOptions { create_dirs: true, owner: None }).await?;
        }
        let mut places = BTreeMap::from([(PathBuf::new(), target)]);
        // Those above come before those below.
        for directory in modes.keys() {
            let Some((above, name)) = directory.parent().zip(directory.file_name()) else { continue };
            let Some(above) = places.get(above) else { continue };
            let place = above.below(host, session, name).await?;
            places.insert(directory.clone(), place);
        }
        Ok(Self { places, modes })
    }

    /// The directories to be made, by their names below the root, with their modes.
    pub(super) fn new_directories(&self) -> impl Iterator<Item = (&Path, Option<u32>)> {
        let new = self.modes.iter().filter_map(|(name, mode)| Some((self.places.get(name)?, *mode)));
        new.filter(|(place, _)| !place.is_there).map(|(place, mode)| (below_root(&place.path), mode))
    }

    /// The name a file of the archive gets, below the root.
    pub(super) fn name(&self, name: &Path) -> Option<PathBuf> {
        let place = self.places.get(name.parent()?)?;
        Some(below_root(&place.path).join(name.file_name()?))
    }
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
