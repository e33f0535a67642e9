//! Snapshots from which sandboxes are created. They outlive their sandbox.
//!
//! A snapshot is a saved base with a note. It has an id, and optionally a name; a later snapshot
//! with the same name and tag replaces it.

use jiff::Timestamp;
use sandbar_core::{BaseName, Error, Result, SessionId};
use serde::{Deserialize, Serialize};

use super::{SandboxNote, Sandboxes, Template};

const MAX_NAME_BYTES: usize = 128;

/// Note on a base that is a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotNote {
    /// Source sandbox.
    pub(crate) snapshot_of: SessionId,
    pub(crate) name: Option<String>,
    pub(crate) tag: String,
    /// Note of the source sandbox.
    pub(crate) sandbox: SandboxNote,
}

/// An existing snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) base: BaseName,
    pub(crate) created: Timestamp,
    pub(crate) note: SnapshotNote,
}

/// Reference to a snapshot in a request: `name`, `name:tag`, `namespace/name:tag`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotRef {
    pub(crate) name: String,
    pub(crate) tag: Option<String>,
}

impl SnapshotRef {
    /// Parses a reference; `None` if no snapshot can have that name. The namespace is that of an
    /// E2B account and is dropped: this host has one account.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let plain = text.trim().rsplit('/').next()?.to_lowercase();
        let (name, tag) = match plain.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (plain.as_str(), None),
        };
        let is_valid = |word: &str| {
            let letters = word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
            !word.is_empty() && word.len() <= MAX_NAME_BYTES && letters
        };
        (is_valid(name) && tag.is_none_or(is_valid)).then(|| Self {
            name: name.to_owned(),
            tag: tag.map(str::to_owned),
        })
    }

    pub(crate) fn matches(&self, snapshot: &Snapshot) -> bool {
        let is_named = snapshot.base.as_str() == self.name
            || snapshot.note.name.as_deref() == Some(&self.name);
        is_named
            && self
                .tag
                .as_ref()
                .is_none_or(|tag| *tag == snapshot.note.tag)
    }
}

impl Sandboxes {
    /// Returns all snapshots, newest first.
    pub(crate) async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let saved = self.host.saved_bases().await?.into_iter();
        let mut snapshots: Vec<Snapshot> = saved
            .filter_map(|(base, note)| {
                // Bases saved through another API have a different note, or none.
                let note = serde_json::from_str(&note?).ok()?;
                Some(Snapshot {
                    base: base.name,
                    created: base.created,
                    note,
                })
            })
            .collect();
        snapshots.sort_by(|one, other| (other.created, &other.base).cmp(&(one.created, &one.base)));
        Ok(snapshots)
    }

    /// Returns the snapshots a reference matches, newest first.
    pub(crate) async fn find_snapshots(&self, name: &SnapshotRef) -> Result<Vec<Snapshot>> {
        let mut snapshots = self.snapshots().await?;
        snapshots.retain(|snapshot| name.matches(snapshot));
        Ok(snapshots)
    }

    /// Saves the files of a sandbox, and deletes an earlier snapshot with the same name and tag.
    pub(crate) async fn save_snapshot(
        &self,
        id: &SessionId,
        note: SnapshotNote,
    ) -> Result<Snapshot> {
        let base = BaseName::new(format!("snap{}", SessionId::random()))?;
        let text = serde_json::to_string(&note).map_err(|source| {
            Error::internal("note of a snapshot could not be serialised").with_source(source)
        })?;
        let saved = self.host.save_base(id, None, &base, Some(text)).await?;
        let snapshot = Snapshot {
            base: saved.name,
            created: saved.created,
            note,
        };
        if snapshot.note.name.is_some() {
            let earlier = self.snapshots().await?.into_iter().filter(|other| {
                other.base != snapshot.base
                    && other.created <= snapshot.created
                    && (&other.note.name, &other.note.tag)
                        == (&snapshot.note.name, &snapshot.note.tag)
            });
            for earlier in earlier {
                self.host.delete_base(&earlier.base).await?;
            }
        }
        Ok(snapshot)
    }

    /// Returns the snapshot of this name as a template; `None` if there is none.
    pub(crate) async fn snapshot_template(&self, name: &str) -> Result<Option<Template>> {
        let Some(name) = SnapshotRef::parse(name) else {
            return Ok(None);
        };
        let found = self.find_snapshots(&name).await?.into_iter().next();
        Ok(found.map(|snapshot| Template {
            id: snapshot.base.to_string(),
            alias: snapshot.note.name,
            base: snapshot.base,
            defaults: snapshot.note.sandbox,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_name_has_a_tag_and_loses_its_namespace() {
        let parse = |text: &str| SnapshotRef::parse(text).map(|name| (name.name, name.tag));
        assert_eq!(parse("My-Snap"), Some(("my-snap".into(), None)));
        assert_eq!(
            parse("team/my-snap:v2"),
            Some(("my-snap".into(), Some("v2".into())))
        );
        for bad in ["", ":", "a:", "a b", "a:b:c", "a/", "ä"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
