//! What we write on datasets and snapshots: one user property each, so that it is there whole or not at all.

use jiff::Timestamp;
use sandbar_core::{BaseName, Error, Result, SnapshotName};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// On a generation: it is complete, and this is what it is.
pub(super) const VOLUME: &str = "sandbar:volume";
/// On a snapshot we took.
pub(super) const SNAPSHOT: &str = "sandbar:snapshot";
/// On the `@ready` snapshot of a base.
pub(super) const BASE: &str = "sandbar:base";
/// On a generation: it and all before it are being deleted.
pub(super) const DELETED: &str = "sandbar:deleted";
/// The tag of our holds.
pub(super) const HOLD: &str = "sandbar";

pub(super) const TAG_LENGTH: usize = 16;
const VERSION: u32 = 1;

/// A moment in nanoseconds since 1970, unique and rising within a store.
pub(super) type Moment = u64;

/// The part of a snapshot's or stage's name that makes it unique.
pub(super) fn tag(moment: Moment) -> String {
    format!("{moment:0TAG_LENGTH$x}")
}

pub(super) fn timestamp(moment: Moment) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(moment)).unwrap_or(Timestamp::MAX)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeMark {
    version: u32,
    /// Tells a volume from an earlier one of the same name, whose snapshots may live on below a fork.
    pub(super) instance: Moment,
    pub(super) base: BaseName,
    /// Snapshots of earlier generations taken after this are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cut: Option<Moment>,
}

impl VolumeMark {
    pub(super) fn new(instance: Moment, base: BaseName, cut: Option<Moment>) -> Self {
        Self { version: VERSION, instance, base, cut }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotMark {
    version: u32,
    pub(super) instance: Moment,
    pub(super) created: Moment,
    /// Snapshots without a name hold a fork of the live volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<SnapshotName>,
}

impl SnapshotMark {
    pub(super) fn new(instance: Moment, created: Moment, name: Option<SnapshotName>) -> Self {
        Self { version: VERSION, instance, created, name }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BaseMark {
    version: u32,
}

impl BaseMark {
    pub(super) const CURRENT: Self = Self { version: VERSION };
}

/// `property=value` for `-o` and `zfs set`.
pub(super) fn assignment(property: &str, mark: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(mark).map_err(|error| Error::internal("encode a mark").with_source(error))?;
    Ok(format!("{property}={json}"))
}

/// `Err` for a mark of a newer Sandbar, which must not be taken for an unfinished dataset.
pub(super) fn parse<T: DeserializeOwned>(dataset: &str, json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| {
        Error::internal(format!("dataset `{dataset}` carries a mark this version cannot read"))
            .with_hint("it was written by a newer Sandbar, or changed by hand")
            .with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_as_they_were_written() {
        let mark = SnapshotMark::new(7, u64::MAX, Some(SnapshotName::new("before-lunch").unwrap()));
        let text = assignment(SNAPSHOT, &mark).unwrap();
        assert!(!text.contains(['\t', '\n']));
        assert_eq!(parse::<SnapshotMark>("x", text.strip_prefix("sandbar:snapshot=").unwrap()).unwrap(), mark);
    }

    #[test]
    fn tags_sort_as_the_moments_they_name() {
        assert_eq!(tag(255).len(), TAG_LENGTH);
        assert!(tag(255) < tag(256));
    }

    #[test]
    fn the_longest_mark_fits_into_the_smallest_property() {
        let mark = SnapshotMark::new(u64::MAX, u64::MAX, Some(SnapshotName::new("n".repeat(255)).unwrap()));
        assert!(assignment(SNAPSHOT, &mark).unwrap().len() < 1024);
    }
}
