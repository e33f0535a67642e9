//! The smallest tree commands run in.

use std::{fs, os::unix::fs::symlink, path::Path};

/// Makes a root with a shell and a few programs, copied from this machine: nothing of it is
/// mounted.
pub fn make_small_root(root: &Path) {
    for directory in [
        "usr/bin",
        "usr/lib64",
        "usr/lib/x86_64-linux-gnu",
        "workspace",
        "tmp",
        "proc",
        "dev",
        "etc",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    for file in [
        "usr/bin/dash",
        "usr/bin/cat",
        "usr/bin/sleep",
        "usr/bin/head",
        "usr/lib64/ld-linux-x86-64.so.2",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
    ] {
        fs::copy(Path::new("/").join(file), root.join(file)).unwrap();
    }
    symlink("dash", root.join("usr/bin/sh")).unwrap();
    // The shell gives it to what runs in the background, where the runtime does not bring a `/dev`
    // of its own.
    fs::write(root.join("dev/null"), "").unwrap();
}
