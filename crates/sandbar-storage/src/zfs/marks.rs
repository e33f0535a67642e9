//! Marks on datasets and snapshots: one user property each, so that a mark is written atomically.

use jiff::Timestamp;
use sandbar_core::{BaseName, Error, Result, SnapshotName};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Mark of a complete generation.
pub(super) const VOLUME: &str = "sandbar:volume";
/// Mark of a snapshot taken by Sandbar.
pub(super) const SNAPSHOT: &str = "sandbar:snapshot";
/// Mark of the `@ready` snapshot of a base.
pub(super) const BASE: &str = "sandbar:base";
/// Mark of a generation that is being deleted with all earlier ones.
pub(super) const DELETED: &str = "sandbar:deleted";
/// Tag of our holds.
pub(super) const HOLD: &str = "sandbar";

pub(super) const TAG_LENGTH: usize = 16;
const VERSION: u32 = 1;

/// Nanoseconds since 1970, unique and increasing within a store.
pub(super) type Moment = u64;

/// Returns the unique part of the name of a snapshot or stage.
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
    /// Distinguishes a volume from an earlier one of the same name, whose snapshots may still be
    /// used by a fork.
    pub(super) instance: Moment,
    pub(super) base: BaseName,
    /// Snapshots of earlier generations taken after this moment are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cut: Option<Moment>,
}

impl VolumeMark {
    pub(super) fn new(instance: Moment, base: BaseName, cut: Option<Moment>) -> Self {
        Self {
            version: VERSION,
            instance,
            base,
            cut,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotMark {
    version: u32,
    pub(super) instance: Moment,
    pub(super) created: Moment,
    /// `None` for the snapshot that a fork of the live volume was cloned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<SnapshotName>,
}

impl SnapshotMark {
    pub(super) fn new(instance: Moment, created: Moment, name: Option<SnapshotName>) -> Self {
        Self {
            version: VERSION,
            instance,
            created,
            name,
        }
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

/// Formats `property=value` for `-o` and `zfs set`.
pub(super) fn assignment(property: &str, mark: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(mark)
        .map_err(|error| Error::internal("encode a mark").with_source(error))?;
    Ok(format!("{property}={json}"))
}

/// Parses a mark. An unknown mark is an error, so that data of a newer Sandbar is not taken for an
/// unfinished dataset and destroyed.
pub(super) fn parse<T: DeserializeOwned>(dataset: &str, json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| {
        Error::internal(format!(
            "dataset `{dataset}` has a mark that this version cannot read"
        ))
        .with_hint("it was written by a newer Sandbar, or changed by hand")
        .with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_round_trip() {
        let mark = SnapshotMark::new(
            7,
            u64::MAX,
            Some(SnapshotName::new("before-lunch").unwrap()),
        );
        let text = assignment(SNAPSHOT, &mark).unwrap();
        assert!(!text.contains(['\t', '\n']));
        assert_eq!(
            parse::<SnapshotMark>("x", text.strip_prefix("sandbar:snapshot=").unwrap()).unwrap(),
            mark
        );
    }

    #[test]
    fn tags_sort_by_moment() {
        assert_eq!(tag(255).len(), TAG_LENGTH);
        assert!(tag(255) < tag(256));
    }

    #[test]
    fn longest_mark_fits_the_property_limit() {
        let mark = SnapshotMark::new(
            u64::MAX,
            u64::MAX,
            Some(SnapshotName::new("n".repeat(255)).unwrap()),
        );
        assert!(assignment(SNAPSHOT, &mark).unwrap().len() < 1024);
    }
}
