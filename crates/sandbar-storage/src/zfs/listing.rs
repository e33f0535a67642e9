//! Parser of `zfs get -Hp`. Old versions do not have `zfs list -p`.

use std::collections::{BTreeMap, HashMap};

use sandbar_core::{Error, Result};

use super::command::{Failure, Tools};

/// Properties of one dataset or snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties(HashMap<String, Value>);

#[derive(Clone, Debug)]
struct Value {
    text: String,
    /// Whether the property is set on this dataset. Snapshots and children inherit user properties
    /// of their parent.
    is_local: bool,
}

impl Properties {
    /// Returns the value; `None` for `-`, which means absent.
    pub(super) fn text(&self, property: &str) -> Option<&str> {
        self.0
            .get(property)
            .map(|value| value.text.as_str())
            .filter(|text| *text != "-")
    }

    pub(super) fn local(&self, property: &str) -> Option<&str> {
        self.0
            .get(property)
            .filter(|value| value.is_local)
            .map(|value| value.text.as_str())
    }

    pub(super) fn number(&self, property: &str) -> u64 {
        // An unset quota is `none` in OpenZFS and 0 in zfs-fuse.
        self.text(property)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    /// Parses `on` or `yes`, depending on the version.
    pub(super) fn flag(&self, property: &str) -> bool {
        matches!(self.text(property), Some("on" | "yes"))
    }
}

/// Reads properties of `datasets` and everything below them, in one command.
pub(super) fn read_all(
    tools: &Tools,
    properties: &[&str],
    datasets: &[&str],
) -> Result<BTreeMap<String, Properties>, Failure> {
    read(
        tools,
        &["get", "-r", "-Hp", "-o", "name,property,value,source"],
        properties,
        datasets,
    )
}

/// Reads properties of these datasets only.
pub(super) fn read_these(
    tools: &Tools,
    properties: &[&str],
    datasets: &[&str],
) -> Result<BTreeMap<String, Properties>, Failure> {
    read(
        tools,
        &["get", "-Hp", "-o", "name,property,value,source"],
        properties,
        datasets,
    )
}

fn read(
    tools: &Tools,
    command: &[&str],
    properties: &[&str],
    datasets: &[&str],
) -> Result<BTreeMap<String, Properties>, Failure> {
    let properties = properties.join(",");
    let arguments: Vec<&str> = command
        .iter()
        .copied()
        .chain([properties.as_str()])
        .chain(datasets.iter().copied())
        .collect();
    Ok(parse(&tools.zfs(&arguments)?))
}

pub(super) fn parse(output: &str) -> BTreeMap<String, Properties> {
    let mut found: BTreeMap<String, Properties> = BTreeMap::new();
    for line in output.lines() {
        let mut fields = line.splitn(3, '\t');
        let (Some(name), Some(property), Some(rest)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        // A value may contain tabs, a source cannot.
        let Some((text, source)) = rest.rsplit_once('\t') else {
            continue;
        };
        let value = Value {
            text: text.to_owned(),
            is_local: source == "local",
        };
        found
            .entry(name.to_owned())
            .or_default()
            .0
            .insert(property.to_owned(), value);
    }
    found
}

/// Returns the row of `name`.
pub(super) fn only(rows: &BTreeMap<String, Properties>, name: &str) -> Result<Properties> {
    rows.get(name)
        .cloned()
        .ok_or_else(|| Error::internal(format!("output of `zfs get` lacks `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_zfs_fuse_and_of_openzfs_reads_alike() {
        let old = "t/a\treferenced\t114688\t-\nt/a\trefquota\t0\tdefault\nt/a\torigin\t-\t-\n\
                   t/a@s\tdefer_destroy\ton\t-\nt/a@s\tsandbar:volume\t{\"v\": 1}\tinherited from t/a\n";
        let new = "t/a\treferenced\t114688\t-\nt/a\trefquota\tnone\tdefault\nt/a\torigin\t-\t-\n\
                   t/a@s\tdefer_destroy\tyes\t-\nt/a@s\tsandbar:volume\t{\"v\": 1}\tinherited from t/a\n";
        for output in [old, new] {
            let rows = parse(output);
            let dataset = &rows["t/a"];
            assert_eq!(
                (dataset.number("referenced"), dataset.number("refquota")),
                (114_688, 0)
            );
            assert_eq!(dataset.text("origin"), None);
            let snapshot = &rows["t/a@s"];
            assert!(snapshot.flag("defer_destroy"));
            assert_eq!(snapshot.local("sandbar:volume"), None);
            assert_eq!(snapshot.text("sandbar:volume"), Some("{\"v\": 1}"));
        }
    }

    #[test]
    fn a_property_set_here_is_local() {
        let rows = parse("t/a\tsandbar:volume\t{\"a\":\"b\tc\"}\tlocal\n");
        assert_eq!(
            rows["t/a"].local("sandbar:volume"),
            Some("{\"a\":\"b\tc\"}")
        );
    }
}
