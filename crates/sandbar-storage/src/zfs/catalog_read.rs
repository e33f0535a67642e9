//! Building the catalog from a listing of the pool.

use std::collections::BTreeMap;

use sandbar_core::{Result, SessionId};

use super::{
    catalog::{Base, Catalog, Dataset, Role, Snapshot},
    layout::{Layout, Part, READY},
    listing::Properties,
    marks::{self, BaseMark},
};

/// Properties that the catalog is built from.
pub(super) const PROPERTIES: [&str; 10] = [
    "origin",
    "referenced",
    "createtxg",
    "refquota",
    "userrefs",
    "defer_destroy",
    marks::VOLUME,
    marks::SNAPSHOT,
    marks::BASE,
    marks::DELETED,
];

impl Catalog {
    /// Reads a listing. Also returns the datasets that an interrupted call left unfinished.
    pub(super) fn read(
        layout: &Layout,
        rows: &BTreeMap<String, Properties>,
    ) -> Result<(Self, Vec<String>)> {
        let mut catalog = Self::default();
        let mut unfinished = Vec::new();
        let mut deleted: BTreeMap<SessionId, u64> = BTreeMap::new();
        for (name, properties) in rows.iter().filter(|(name, _)| !name.contains('@')) {
            let origin = properties.text("origin").map(str::to_owned);
            if let Some((base, is_staged)) = layout.parse_base(name) {
                let ready = rows.get(&format!("{name}@{READY}"));
                match ready.filter(|ready| ready.local(marks::BASE).is_some()) {
                    Some(ready) if !is_staged => {
                        marks::parse::<BaseMark>(
                            name,
                            ready.local(marks::BASE).unwrap_or_default(),
                        )?;
                        let is_held = ready.number("userrefs") > 0;
                        catalog.bases.insert(
                            base,
                            Base {
                                referenced: ready.number("referenced"),
                                is_held,
                            },
                        );
                    }
                    // Partly deleted, or another program's dataset; only datasets with our staging
                    // names are removed.
                    _ if is_staged => unfinished.push(name.clone()),
                    _ => {}
                }
                continue;
            }
            let Some((volume, part)) = layout.parse(name) else {
                continue;
            };
            let role = match part {
                Part::Receiving => {
                    unfinished.push(name.clone());
                    continue;
                }
                Part::View => Role::View,
                Part::Generation(number) => match properties.local(marks::VOLUME) {
                    Some(json) => {
                        if properties.local(marks::DELETED).is_some() {
                            let highest = deleted.entry(volume.clone()).or_default();
                            *highest = (*highest).max(number);
                        }
                        Role::Generation {
                            number,
                            mark: marks::parse(name, json)?,
                            is_dead: false,
                        }
                    }
                    // A clone without our property. Unfinished if its origin is ours, else another
                    // program's dataset.
                    None if origin.as_deref().is_some_and(|origin| layout.owns(origin)) => {
                        unfinished.push(name.clone());
                        continue;
                    }
                    None => continue,
                },
            };
            let snapshots = read_snapshots(name, rows)?;
            let refquota = properties.number("refquota");
            catalog.datasets.insert(
                name.clone(),
                Dataset {
                    volume,
                    role,
                    origin,
                    refquota,
                    snapshots,
                },
            );
        }
        for dataset in catalog.datasets.values_mut() {
            if let Role::Generation {
                number, is_dead, ..
            } = &mut dataset.role
            {
                *is_dead = deleted
                    .get(&dataset.volume)
                    .is_some_and(|highest| *number <= *highest);
            }
        }
        Ok((catalog, unfinished))
    }
}

fn read_snapshots(dataset: &str, rows: &BTreeMap<String, Properties>) -> Result<Vec<Snapshot>> {
    let prefix = format!("{dataset}@");
    let mut snapshots = Vec::new();
    for (name, properties) in rows.range(prefix.clone()..) {
        let Some(tag) = name.strip_prefix(&prefix) else {
            break;
        };
        let mark = properties
            .local(marks::SNAPSHOT)
            .map(|json| marks::parse(name, json))
            .transpose()?;
        let snapshot = Snapshot {
            tag: tag.to_owned(),
            mark,
            is_deferred: properties.flag("defer_destroy"),
        };
        snapshots.push((properties.number("createtxg"), snapshot));
    }
    snapshots.sort_by_key(|(transaction, _)| *transaction);
    Ok(snapshots
        .into_iter()
        .map(|(_, snapshot)| snapshot)
        .collect())
}
