//! Files of the host.

use std::{fs, path::Path};

use sandbar_host::HostConfig;

/// Parses a host configuration in TOML.
pub(super) fn host_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(config) = toml::from_str::<HostConfig>(text) else {
        return;
    };
    let written = toml::to_string(&config);
    let again = written
        .as_ref()
        .ok()
        .and_then(|text| toml::from_str::<HostConfig>(text).ok());
    assert_eq!(
        again.map(|again| format!("{again:?}")),
        Some(format!("{config:?}")),
        "written as {written:?}"
    );
}

/// Unpacks an archive. No file may be created outside the target directory.
pub(super) fn unpack(bytes: &[u8]) {
    let Ok(scratch) = tempfile::Builder::new()
        .prefix("sandbar-test-fuzz-")
        .tempdir()
    else {
        return;
    };
    let root = scratch.path().join("root");
    if fs::create_dir(&root).is_err() {
        return;
    }
    sandbar_tree::fuzzing::unpack(&root, bytes);
    let beside = fs::read_dir(scratch.path()).map_or(0, Iterator::count);
    assert_eq!(beside, 1, "something is beside the root");
    remove(&root);
}

fn remove(root: &Path) {
    // `remove_tree` refuses mount points; the guard removes the rest of the scratch directory.
    let _ = sandbar_tree::remove_tree(root);
}
