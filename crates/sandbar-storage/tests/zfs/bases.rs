use std::fs;

use sandbar_core::{BaseName, ErrorCode};
use sandbar_storage::{ForkPoint, Storage, VolumeSpec};

use crate::support::{Fixture, base, id, record};

#[test]
fn a_base_is_held_against_accidents_until_it_is_deleted() {
    let mut fixture = Fixture::new();
    let dataset = format!("{}/bases/b", fixture.pool.name());
    let error = fixture.pool.zfs(&["destroy", "-r", &dataset]).unwrap_err();
    assert!(error.contains("busy"), "{error}");
    // An interrupted deletion may have taken the hold away; the next start puts it back.
    fixture
        .pool
        .zfs(&["release", "sandbar", &format!("{dataset}@ready")])
        .unwrap();
    fixture.reopen();
    assert!(fixture.pool.zfs(&["destroy", "-r", &dataset]).is_err());
    fixture.store.delete_base(&base()).unwrap();
    assert!(fixture.pool.zfs(&["list", &dataset]).is_err());
    assert_eq!(
        fixture.store.base(&base()).unwrap_err().code(),
        ErrorCode::BaseNotFound
    );
}

#[test]
fn a_base_in_use_is_not_deleted_also_when_only_a_fork_uses_it() {
    let fixture = Fixture::new();
    fixture.create("v");
    fixture.fork("v", &ForkPoint::Now, "f");
    fixture.store.delete(&id("v")).unwrap();
    let error = fixture.store.delete_base(&base()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    assert!(error.message().contains("`f`"), "{error}");
    assert_eq!(fixture.read("f", "hello").unwrap(), "from the base");
    fixture.store.delete(&id("f")).unwrap();
    fixture.store.delete_base(&base()).unwrap();
}

#[test]
fn base_cloned_by_another_program_is_not_deleted() {
    let fixture = Fixture::new();
    let pool = fixture.pool.name().to_owned();
    fixture
        .pool
        .zfs(&[
            "clone",
            &format!("{pool}/bases/b@ready"),
            &format!("{pool}/theirs"),
        ])
        .unwrap();
    let error = fixture.store.delete_base(&base()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    fixture.create("v");
    assert_eq!(fixture.read("v", "hello").unwrap(), "from the base");
}

#[test]
fn staged_base_is_invisible_and_removed_on_drop() {
    let mut fixture = Fixture::new();
    let name = BaseName::new("c").unwrap();
    let staged = fixture.store.stage_base(&name).unwrap();
    fs::write(staged.rootfs().join("x"), "x").unwrap();
    assert_eq!(fixture.store.bases().unwrap().len(), 1);
    drop(staged);
    let bases = format!("{}/bases", fixture.pool.name());
    let left = |fixture: &Fixture| {
        fixture
            .pool
            .zfs(&["list", "-H", "-o", "name", "-r", &bases])
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(left(&fixture), 2);
    // Killed while staging: nothing runs the destructor.
    std::mem::forget(fixture.store.stage_base(&name).unwrap());
    assert_eq!(left(&fixture), 3);
    fixture.reopen();
    assert_eq!(left(&fixture), 2);
}

#[test]
fn of_two_stages_of_one_name_the_first_to_commit_wins() {
    let fixture = Fixture::new();
    let name = BaseName::new("c").unwrap();
    let first = fixture.store.stage_base(&name).unwrap();
    let second = fixture.store.stage_base(&name).unwrap();
    fs::write(first.rootfs().join("x"), "first").unwrap();
    fixture
        .store
        .commit_base(first, &record(&name, &[]))
        .unwrap();
    let error = fixture
        .store
        .commit_base(second, &record(&name, &[]))
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::BaseExists);
    assert_eq!(
        fixture.store.stage_base(&name).unwrap_err().code(),
        ErrorCode::BaseExists
    );
    fixture
        .store
        .create(
            &id("v"),
            &VolumeSpec {
                base: name,
                quota: None,
            },
        )
        .unwrap();
    assert_eq!(fixture.read("v", "x").unwrap(), "first");
}

#[test]
fn lent_directories_are_read_only_and_unmounted() {
    let fixture = Fixture::new();
    let lent = fixture.pool.daemon().directory().join("lent");
    fs::create_dir(&lent).unwrap();
    fs::write(lent.join("tool"), "from the machine").unwrap();
    let name = BaseName::new("lending").unwrap();
    let staged = fixture.store.stage_base(&name).unwrap();
    fixture
        .store
        .commit_base(staged, &record(&name, &[("/usr", lent.to_str().unwrap())]))
        .unwrap();
    fixture
        .store
        .create(
            &id("v"),
            &VolumeSpec {
                base: name,
                quota: None,
            },
        )
        .unwrap();
    assert_eq!(fixture.read("v", "usr/tool").unwrap(), "from the machine");
    let refused = fs::write(fixture.path("v", "usr/tool"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    fixture.write("v", "own", "own");
    let view = fixture.store.view(&id("v"), &ForkPoint::Now).unwrap();
    assert_eq!(view.layers[1].lower.as_deref(), Some(lent.as_path()));
    assert_eq!(view.layers[1].upper, None);
    fixture.store.unmount(&id("v")).unwrap();
    assert_eq!(
        fs::read_to_string(lent.join("tool")).unwrap(),
        "from the machine"
    );
    fixture.store.mount(&id("v")).unwrap();
    fixture.store.delete(&id("v")).unwrap();
    assert_eq!(
        fs::read_to_string(lent.join("tool")).unwrap(),
        "from the machine"
    );
}
