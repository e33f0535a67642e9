//! Directory watch messages.

use std::path::PathBuf;

use sandbar_core::{DirChange, DirChangeKind, DirNews, Error, Result};

use super::{
    file::{pack_path, unpack_path},
    scalar::{known, missing},
};
use crate::v1::{self, watch_dir_response::Event};

impl From<DirChange> for v1::DirChange {
    fn from(change: DirChange) -> Self {
        let (path, path_bytes) = pack_path(&change.path);
        let (kind, before) = match change.kind {
            DirChangeKind::Created => (v1::DirChangeKind::Created, None),
            DirChangeKind::Written => (v1::DirChangeKind::Written, None),
            DirChangeKind::Removed | DirChangeKind::Left => (v1::DirChangeKind::Removed, None),
            DirChangeKind::Renamed { from } => (v1::DirChangeKind::Renamed, Some(from)),
            DirChangeKind::Attributes => (v1::DirChangeKind::Attributes, None),
        };
        let (from, from_bytes) = before.as_deref().map(pack_path).unwrap_or_default();
        Self {
            kind: kind.into(),
            path,
            path_bytes,
            from,
            from_bytes,
            is_dir: change.is_dir,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::DirChange> for DirChange {
    type Error = Error;

    fn try_from(wire: v1::DirChange) -> Result<Self> {
        let before =
            || -> Result<PathBuf> { unpack_path(wire.from.clone(), wire.from_bytes.clone()) };
        let kind = match known("kind", wire.kind)? {
            v1::DirChangeKind::DIR_CHANGE_KIND_UNSPECIFIED => return Err(missing("kind")),
            v1::DirChangeKind::DIR_CHANGE_KIND_CREATED => DirChangeKind::Created,
            v1::DirChangeKind::DIR_CHANGE_KIND_WRITTEN => DirChangeKind::Written,
            v1::DirChangeKind::DIR_CHANGE_KIND_REMOVED => DirChangeKind::Removed,
            v1::DirChangeKind::DIR_CHANGE_KIND_RENAMED => {
                DirChangeKind::Renamed { from: before()? }
            }
            v1::DirChangeKind::DIR_CHANGE_KIND_ATTRIBUTES => DirChangeKind::Attributes,
        };
        Ok(Self {
            kind,
            path: unpack_path(wire.path, wire.path_bytes)?,
            is_dir: wire.is_dir,
        })
    }
}

impl From<DirNews> for v1::WatchDirResponse {
    fn from(news: DirNews) -> Self {
        let event = match news {
            DirNews::Changed(change) => v1::DirChange::from(change).into(),
            DirNews::Overflow => v1::WatchDirOverflow::default().into(),
        };
        Self {
            event: Some(event),
            ..Default::default()
        }
    }
}

/// Returns the change of a message; `None` for messages about the call itself.
pub fn unpack_dir_news(event: Event) -> Result<Option<DirNews>> {
    Ok(match event {
        Event::Change(change) => Some(DirNews::Changed((*change).try_into()?)),
        Event::Overflow(_) => Some(DirNews::Overflow),
        Event::Ready(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use super::*;

    #[test]
    fn change_with_any_file_name_survives_the_wire() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/workspace/\xff"));
        let kinds = [
            DirChangeKind::Created,
            DirChangeKind::Written,
            DirChangeKind::Removed,
            DirChangeKind::Renamed { from: odd.clone() },
            DirChangeKind::Attributes,
        ];
        for (kind, is_dir) in kinds.into_iter().zip([true, false].into_iter().cycle()) {
            for news in [
                DirNews::Changed(DirChange {
                    kind: kind.clone(),
                    path: odd.clone(),
                    is_dir,
                }),
                DirNews::Overflow,
            ] {
                let wire = v1::WatchDirResponse::from(news.clone());
                assert_eq!(unpack_dir_news(wire.event.unwrap()).unwrap(), Some(news));
            }
        }
    }
}
