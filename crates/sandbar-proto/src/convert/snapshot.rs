//! Snapshot and diff messages.

use sandbar_core::{
    Aspect, Aspects, ByteCount, Change, ChangeKind, Error, Result, SnapshotInfo, SnapshotKind,
    SnapshotName,
};

use super::{
    file::{pack_path, unpack_path},
    scalar::{known, missing, pack_time, unpack_time},
    session::optional_snapshot,
};
use crate::v1;

impl From<SnapshotInfo> for v1::Snapshot {
    fn from(snapshot: SnapshotInfo) -> Self {
        Self {
            name: snapshot.name.into(),
            kind: match snapshot.kind {
                SnapshotKind::Named => v1::SnapshotKind::Named,
                SnapshotKind::Turn => v1::SnapshotKind::Turn,
                SnapshotKind::Tool => v1::SnapshotKind::Tool,
            }
            .into(),
            created: pack_time(snapshot.created),
            parent: snapshot.parent.map(String::from).unwrap_or_default(),
            space_used: snapshot.space_used.map(ByteCount::get),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Snapshot> for SnapshotInfo {
    type Error = Error;

    fn try_from(wire: v1::Snapshot) -> Result<Self> {
        Ok(Self {
            name: SnapshotName::new(wire.name)?,
            kind: match known("kind", wire.kind)? {
                v1::SnapshotKind::SNAPSHOT_KIND_UNSPECIFIED => return Err(missing("kind")),
                v1::SnapshotKind::SNAPSHOT_KIND_NAMED => SnapshotKind::Named,
                v1::SnapshotKind::SNAPSHOT_KIND_TURN => SnapshotKind::Turn,
                v1::SnapshotKind::SNAPSHOT_KIND_TOOL => SnapshotKind::Tool,
            },
            created: unpack_time("created", wire.created)?,
            parent: optional_snapshot("parent", wire.parent)?,
            space_used: wire.space_used.map(ByteCount),
        })
    }
}

impl From<Aspect> for v1::Aspect {
    fn from(aspect: Aspect) -> Self {
        match aspect {
            Aspect::Type => Self::Type,
            Aspect::Content => Self::Content,
            Aspect::Mode => Self::Mode,
            Aspect::Owner => Self::Owner,
            Aspect::Xattrs => Self::Xattrs,
            Aspect::Time => Self::Time,
        }
    }
}

impl From<Change> for v1::Change {
    fn from(change: Change) -> Self {
        let (path, path_bytes) = pack_path(&change.path);
        Self {
            path,
            path_bytes,
            kind: match change.kind {
                ChangeKind::Added => v1::ChangeKind::Added,
                ChangeKind::Modified => v1::ChangeKind::Modified,
                ChangeKind::Deleted => v1::ChangeKind::Deleted,
            }
            .into(),
            entry: v1::EntryType::from(change.entry).into(),
            aspects: change
                .aspects
                .iter()
                .map(|aspect| v1::Aspect::from(aspect).into())
                .collect(),
            size: change.size,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Change> for Change {
    type Error = Error;

    fn try_from(wire: v1::Change) -> Result<Self> {
        let mut aspects = Aspects::NONE;
        for aspect in wire.aspects {
            aspects = aspects.with(match known("aspects", aspect)? {
                v1::Aspect::ASPECT_UNSPECIFIED => return Err(missing("aspects")),
                v1::Aspect::ASPECT_TYPE => Aspect::Type,
                v1::Aspect::ASPECT_CONTENT => Aspect::Content,
                v1::Aspect::ASPECT_MODE => Aspect::Mode,
                v1::Aspect::ASPECT_OWNER => Aspect::Owner,
                v1::Aspect::ASPECT_XATTRS => Aspect::Xattrs,
                v1::Aspect::ASPECT_TIME => Aspect::Time,
            });
        }
        Ok(Self {
            path: unpack_path(String::new(), wire.path_bytes)?,
            kind: match known("kind", wire.kind)? {
                v1::ChangeKind::CHANGE_KIND_UNSPECIFIED => return Err(missing("kind")),
                v1::ChangeKind::CHANGE_KIND_ADDED => ChangeKind::Added,
                v1::ChangeKind::CHANGE_KIND_MODIFIED => ChangeKind::Modified,
                v1::ChangeKind::CHANGE_KIND_DELETED => ChangeKind::Deleted,
            },
            entry: known("entry", wire.entry)?.try_into()?,
            aspects,
            size: wire.size,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use jiff::Timestamp;
    use sandbar_core::EntryType;

    use super::*;

    #[test]
    fn snapshot_survives_the_wire() {
        for kind in [SnapshotKind::Named, SnapshotKind::Turn, SnapshotKind::Tool] {
            let sent = SnapshotInfo {
                name: SnapshotName::new("turn-0001").unwrap(),
                kind,
                created: Timestamp::new(5, 6).unwrap(),
                parent: Some(SnapshotName::new("clean").unwrap()),
                space_used: Some(ByteCount(7)),
            };
            assert_eq!(
                SnapshotInfo::try_from(v1::Snapshot::from(sent.clone())).unwrap(),
                sent
            );
        }
    }

    #[test]
    fn a_change_keeps_a_name_that_is_not_utf8() {
        for kind in [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted] {
            let sent = Change {
                path: OsStr::from_bytes(b"/workspace/\xff\nname").into(),
                kind,
                entry: EntryType::Symlink,
                aspects: Aspect::ALL.into_iter().fold(Aspects::NONE, Aspects::with),
                size: 9,
            };
            let wire = v1::Change::from(sent.clone());
            assert_eq!(wire.path, "/workspace/\u{fffd}\nname");
            assert_eq!(Change::try_from(wire).unwrap(), sent);
        }
    }
}
