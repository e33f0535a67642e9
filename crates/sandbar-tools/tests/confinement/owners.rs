use std::{os::unix::fs::MetadataExt as _, sync::Arc};

use sandbar_core::OwnerMap;
use serde_json::json;

use crate::volume::Volume;

/// A tree mounted with an owner map shows shifted owners on the host, so the host has to create
/// files with shifted owners.
pub(crate) fn created_files_belong_to_the_sandbox_user(volume: &Volume) {
    const FIRST: u32 = 700_000;
    let owners = Arc::new(OwnerMap::new(
        FIRST,
        std::fs::File::open("/dev/null").unwrap().into(),
    ));
    let run = |tool, params| volume.run_as(Some(Arc::clone(&owners)), tool, params);
    let owner = |name: &str| {
        let metadata = volume.path(name).symlink_metadata().unwrap();
        (metadata.uid(), metadata.gid())
    };
    run("write_file", json!({"path": "a/b/f", "content": "one"}));
    for name in ["a", "a/b", "a/b/f"] {
        assert_eq!(owner(name), (FIRST, FIRST), "{name}");
    }
    // A replaced file keeps its owner.
    std::os::unix::fs::chown(volume.path("a/b/f"), Some(FIRST + 33), Some(FIRST + 34)).unwrap();
    run("write_file", json!({"path": "a/b/f", "content": "two"}));
    assert_eq!(owner("a/b/f"), (FIRST + 33, FIRST + 34));
    run(
        "edit_file",
        json!({"path": "a/b/f", "old_string": "two", "new_string": "three"}),
    );
    assert_eq!(owner("a/b/f"), (FIRST + 33, FIRST + 34));
    // In a directory that hands its group down, the group is the directory's.
    std::os::unix::fs::chown(volume.path("a"), Some(FIRST), Some(FIRST + 50)).unwrap();
    sandbar_testing::tree::set_mode(&volume.path("a"), 0o2775);
    run("write_file", json!({"path": "a/g", "content": "four"}));
    assert_eq!(owner("a/g"), (FIRST, FIRST + 50));
}
