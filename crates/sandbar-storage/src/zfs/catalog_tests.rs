use super::*;
use crate::zfs::{layout::tests::layout, listing::Properties};

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn names(catalog: &Catalog, volume: &str) -> Vec<String> {
    catalog
        .snapshots(&id(volume))
        .iter()
        .map(|snapshot| snapshot.name.to_string())
        .collect()
}

fn base() -> BaseName {
    BaseName::new("b").unwrap()
}

/// A generation; its snapshots are `(moment, name)`, where the moment is also the tag.
fn generation(
    volume: &str,
    number: u64,
    origin: &str,
    cut: Option<u64>,
    snapshots: &[(u64, &str)],
) -> (String, Dataset) {
    let snapshots = snapshots.iter().map(|(created, name)| Snapshot {
        tag: created.to_string(),
        mark: Some(SnapshotMark::new(
            1,
            *created,
            SnapshotName::new(*name).ok(),
        )),
        is_deferred: false,
    });
    let dataset = Dataset {
        volume: id(volume),
        role: Role::Generation {
            number,
            mark: VolumeMark::new(1, base(), cut),
            is_dead: false,
        },
        origin: Some(origin.to_owned()),
        refquota: 0,
        snapshots: snapshots.collect(),
    };
    (format!("tank/sessions/{volume}:{number}"), dataset)
}

fn catalog(datasets: impl IntoIterator<Item = (String, Dataset)>) -> Catalog {
    Catalog {
        bases: BTreeMap::new(),
        datasets: datasets.into_iter().collect(),
    }
}

const READY: &str = "tank/bases/b@ready";

#[test]
fn the_highest_generation_is_live_also_beyond_nine() {
    let catalog = catalog([
        generation("v", 9, READY, None, &[]),
        generation("v", 10, READY, None, &[]),
    ]);
    assert_eq!(catalog.live(&id("v")).unwrap().number, 10);
    assert_eq!(catalog.next_number(&id("v")), 11);
    assert!(catalog.live(&id("w")).is_err());
}

#[test]
fn a_cut_hides_later_snapshots_of_earlier_generations_only() {
    let catalog = catalog([
        generation("v", 0, READY, None, &[(1, "a"), (2, "b"), (3, "c")]),
        generation("v", 1, "tank/sessions/v:0@1", Some(1), &[(4, "d")]),
    ]);
    assert_eq!(names(&catalog, "v"), ["a", "d"]);
    assert!(catalog.garbage(&id("v")).is_empty());
}

#[test]
fn snapshots_kept_by_rollback_stay_in_order() {
    let catalog = catalog([
        generation("v", 0, READY, None, &[(1, "a"), (5, "e")]),
        generation("v", 1, "tank/sessions/v:0@1", None, &[(3, "c")]),
    ]);
    assert_eq!(names(&catalog, "v"), ["a", "c", "e"]);
}

#[test]
fn promote_swaps_clone_and_origin_and_moves_snapshots() {
    let mut catalog = catalog([
        generation("v", 0, READY, None, &[(1, "a"), (2, "b"), (3, "c")]),
        generation("f", 0, "tank/sessions/v:0@2", None, &[(9, "x")]),
        generation("g", 0, "tank/sessions/v:0@1", None, &[]),
        generation("h", 0, "tank/sessions/v:0@3", None, &[]),
    ]);
    catalog.promote("tank/sessions/f:0");
    let tags = |name: &str| -> Vec<String> {
        catalog.datasets[name]
            .snapshots
            .iter()
            .map(|snapshot| snapshot.tag.clone())
            .collect()
    };
    let origin = |name: &str| catalog.datasets[name].origin.clone().unwrap();
    assert_eq!(tags("tank/sessions/f:0"), ["1", "2", "9"]);
    assert_eq!(tags("tank/sessions/v:0"), ["3"]);
    assert_eq!(origin("tank/sessions/f:0"), READY);
    assert_eq!(origin("tank/sessions/v:0"), "tank/sessions/f:0@2");
    assert_eq!(origin("tank/sessions/g:0"), "tank/sessions/f:0@1");
    assert_eq!(origin("tank/sessions/h:0"), "tank/sessions/v:0@3");
}

#[test]
fn snapshots_of_another_instance_are_never_shown() {
    let (name, mut dataset) = generation("v", 0, READY, None, &[(1, "a")]);
    dataset.snapshots[0].mark = Some(SnapshotMark::new(77, 1, SnapshotName::new("a").ok()));
    let catalog = catalog([(name, dataset)]);
    assert!(names(&catalog, "v").is_empty());
    assert_eq!(catalog.stale_snapshots(), ["tank/sessions/v:0@1"]);
}

#[test]
fn a_deferred_snapshot_goes_with_its_last_clone() {
    let mut catalog = catalog([
        generation("v", 0, READY, None, &[(1, "a")]),
        generation("f", 0, "tank/sessions/v:0@1", None, &[]),
        generation("g", 0, "tank/sessions/v:0@1", None, &[]),
    ]);
    catalog.snapshot("tank/sessions/v:0@1").unwrap().is_deferred = true;
    assert!(names(&catalog, "v").is_empty());
    catalog.remove("tank/sessions/f:0");
    assert!(catalog.snapshot("tank/sessions/v:0@1").is_some());
    catalog.remove("tank/sessions/g:0");
    assert!(catalog.snapshot("tank/sessions/v:0@1").is_none());
}

/// A dataset with its `(property, value, source)`.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)]);

fn rows(rows: &[Row<'_>]) -> BTreeMap<String, Properties> {
    let lines = rows.iter().flat_map(|(name, properties)| {
        properties.iter().map(move |(property, value, source)| {
            format!("{name}\t{property}\t{value}\t{source}\n")
        })
    });
    crate::zfs::listing::parse(&lines.collect::<String>())
}

#[test]
fn unfinished_datasets_are_found_and_those_of_others_left_alone() {
    let mark = "{\"version\":1,\"instance\":5,\"base\":\"b\"}";
    let rows = rows(&[
        ("tank/bases/b", &[("origin", "-", "-")]),
        (
            "tank/bases/b@ready",
            &[
                ("sandbar:base", "{\"version\":1}", "local"),
                ("userrefs", "1", "-"),
            ],
        ),
        ("tank/bases/c:0f", &[("origin", "-", "-")]),
        ("tank/bases/theirs", &[("origin", "-", "-")]),
        (
            "tank/sessions/done:0",
            &[("origin", READY, "-"), ("sandbar:volume", mark, "local")],
        ),
        (
            "tank/sessions/half:0",
            &[("origin", READY, "-"), ("sandbar:volume", "-", "-")],
        ),
        ("tank/sessions/recv:r0", &[("origin", "-", "-")]),
        ("tank/sessions/theirs", &[("origin", READY, "-")]),
        ("tank/sessions/clone:7", &[("origin", "tank/home@x", "-")]),
    ]);
    let (catalog, unfinished) = Catalog::read(&layout(), &rows).unwrap();
    assert_eq!(
        unfinished,
        [
            "tank/bases/c:0f",
            "tank/sessions/half:0",
            "tank/sessions/recv:r0"
        ]
    );
    assert_eq!(catalog.volumes(), [id("done")]);
    assert!(catalog.bases[&base()].is_held);
}

#[test]
fn deletion_mark_covers_earlier_generations_only() {
    let mark = "{\"version\":1,\"instance\":5,\"base\":\"b\"}";
    let dead: &[_] = &[
        ("origin", READY, "-"),
        ("sandbar:volume", mark, "local"),
        ("sandbar:deleted", "yes", "local"),
    ];
    let plain: &[_] = &[("origin", READY, "-"), ("sandbar:volume", mark, "local")];
    let (catalog, _) = Catalog::read(
        &layout(),
        &rows(&[("tank/sessions/v:0", plain), ("tank/sessions/v:1", dead)]),
    )
    .unwrap();
    assert!(catalog.volumes().is_empty());
    assert_eq!(catalog.garbage(&id("v")).len(), 2);
    let all = rows(&[
        ("tank/sessions/v:0", plain),
        ("tank/sessions/v:1", dead),
        ("tank/sessions/v:2", plain),
    ]);
    let (catalog, _) = Catalog::read(&layout(), &all).unwrap();
    assert_eq!(catalog.live(&id("v")).unwrap().number, 2);
    assert_eq!(catalog.garbage(&id("v")).len(), 2);
}

#[test]
fn a_mark_of_a_newer_version_is_an_error_and_not_unfinished() {
    let mark = "{\"version\":2,\"instance\":5,\"base\":\"b\",\"shiny\":true}";
    let rows = rows(&[(
        "tank/sessions/v:0",
        &[("origin", READY, "-"), ("sandbar:volume", mark, "local")],
    )]);
    assert!(Catalog::read(&layout(), &rows).is_err());
}
