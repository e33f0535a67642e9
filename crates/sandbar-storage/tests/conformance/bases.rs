use std::fs;

use sandbar_core::{BaseName, ErrorCode};
use sandbar_storage::VolumeSpec;
use sandbar_testing::{Backend, StorageFixture, commit_base, tree};

fn name(text: &str) -> BaseName {
    BaseName::new(text).unwrap()
}

pub(crate) fn a_base_is_listed_and_read_back(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let listed = fixture.storage.bases().unwrap();
    assert_eq!(
        listed
            .iter()
            .map(|record| record.name.as_str())
            .collect::<Vec<_>>(),
        ["small"]
    );
    assert_eq!(fixture.storage.base(&fixture.base).unwrap(), listed[0]);
}

pub(crate) fn a_base_is_invisible_until_it_is_committed(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let staged = fixture.storage.stage_base(&name("draft")).unwrap();
    fs::write(staged.rootfs().join("file"), "x").unwrap();
    assert_eq!(
        fixture.storage.base(&name("draft")).unwrap_err().code(),
        ErrorCode::BaseNotFound
    );
    assert_eq!(fixture.storage.bases().unwrap().len(), 1);
}

pub(crate) fn a_dropped_stage_leaves_nothing(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let staged = fixture.storage.stage_base(&name("draft")).unwrap();
    let place = staged.rootfs();
    fs::write(place.join("file"), "x").unwrap();
    drop(staged);
    assert!(!place.exists());
    commit_base(&*fixture.storage, &name("draft"), |root| {
        fs::write(root.join("other"), "y").unwrap();
    });
    assert_eq!(fixture.storage.bases().unwrap().len(), 2);
}

pub(crate) fn a_base_name_is_taken_once(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let error = fixture.storage.stage_base(&fixture.base).unwrap_err();
    assert_eq!(error.code(), ErrorCode::BaseExists);
    assert!(error.hint().unwrap().contains("base rm"));
}

pub(crate) fn an_unknown_base_is_refused_and_the_known_ones_are_named(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = sandbar_core::SessionId::new("v").unwrap();
    let spec = VolumeSpec {
        base: name("no-such"),
        quota: None,
    };
    let error = fixture.storage.create(&volume, &spec).unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::BaseNotFound, Some("base_snapshot"))
    );
    assert!(
        error.hint().unwrap().contains("`small`"),
        "{:?}",
        error.hint()
    );
    assert!(fixture.storage.volumes().unwrap().is_empty());
}

pub(crate) fn a_base_in_use_is_not_deleted(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("user");
    let error = fixture.storage.delete_base(&fixture.base).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    assert!(error.message().contains("user"));
    assert!(
        fixture
            .storage
            .mount(&volume)
            .unwrap()
            .join("etc/config")
            .exists()
    );
    fixture.storage.delete(&volume).unwrap();
    fixture.storage.delete_base(&fixture.base).unwrap();
}

pub(crate) fn a_deleted_base_is_gone_and_its_name_is_free(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    fixture.storage.delete_base(&fixture.base).unwrap();
    assert!(fixture.storage.bases().unwrap().is_empty());
    assert_eq!(
        fixture
            .storage
            .delete_base(&fixture.base)
            .unwrap_err()
            .code(),
        ErrorCode::BaseNotFound
    );
    commit_base(&*fixture.storage, &fixture.base, |root| {
        fs::write(root.join("only"), "x").unwrap();
    });
    let root = fixture.storage.mount(&fixture.volume("v")).unwrap();
    assert_eq!(fs::read(root.join("only")).unwrap(), b"x");
    assert!(!root.join("etc").exists());
}

pub(crate) fn a_session_never_changes_its_base(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let untouched = tree::tree(&fixture.storage.mount(&fixture.volume("untouched")).unwrap());
    let root = fixture.storage.mount(&fixture.volume("busy")).unwrap();
    fs::write(root.join("etc/config"), "changed").unwrap();
    fs::remove_dir_all(root.join("usr/share")).unwrap();
    tree::set_mode(&root.join("usr/bin/tool-2"), 0o700);
    fs::hard_link(root.join("usr/bin/tool-3"), root.join("workspace/link")).unwrap();
    fs::write(root.join("workspace/link"), "through a hard link").unwrap();
    let fresh = tree::tree(&fixture.storage.mount(&fixture.volume("fresh")).unwrap());
    tree::assert_same(&untouched, &fresh);
}
