//! Copies equal their source.

use std::{cell::Cell, fs, path::PathBuf};

use rustix::fs::FileType;
use sandbar_testing::private_mounts;
use sandbar_testing::tree::{
    allocated, assert_same, make_node, one_of_everything, scratch, set_xattr, tree,
};
use sandbar_tree::{CopyOptions, Fidelity, OverlayInternals, copy_tree, remove_tree};

#[test]
fn a_copy_has_everything_the_tree_has() {
    let scratch = scratch();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    one_of_everything(&from);
    let summary = copy_tree(&from, &to, &CopyOptions::VERBATIM).unwrap();
    let before = tree(&from);
    assert_same(&before, &tree(&to));
    assert_eq!(summary.entries, before.len() as u64 - 1);
    assert_eq!((summary.omitted, summary.notes.len()), (0, 0));
    assert!(allocated(&to.join("holes")) < 1 << 20, "holes were filled");
    assert_eq!(allocated(&to.join("all-hole")), 0);
}

#[test]
fn overlay_internals_are_kept_verbatim_and_dropped_when_asked() {
    let scratch = scratch();
    let from = scratch.path().join("upper");
    fs::create_dir_all(from.join("opaque")).unwrap();
    set_xattr(&from.join("opaque"), "trusted.overlay.opaque", b"y");
    set_xattr(&from.join("opaque"), "trusted.mine", b"kept");
    make_node(&from.join("gone"), FileType::CharacterDevice, 0, 0);
    fs::hard_link(from.join("gone"), from.join("gone-too")).unwrap();

    let verbatim = scratch.path().join("verbatim");
    copy_tree(&from, &verbatim, &CopyOptions::VERBATIM).unwrap();
    assert_same(&tree(&from), &tree(&verbatim));

    let plain = scratch.path().join("plain");
    let options = CopyOptions {
        overlay_internals: OverlayInternals::Drop,
        ..CopyOptions::VERBATIM
    };
    copy_tree(&from, &plain, &options).unwrap();
    let plain = tree(&plain);
    assert_eq!(
        plain.keys().cloned().collect::<Vec<_>>(),
        [PathBuf::new(), "opaque".into()]
    );
    assert_eq!(
        plain[&PathBuf::from("opaque")]
            .xattrs
            .keys()
            .collect::<Vec<_>>(),
        ["trusted.mine"]
    );
}

#[test]
fn tree_deeper_than_the_fd_limit_is_copied_and_removed() {
    let scratch = scratch();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir(&from).unwrap();
    // Deeper than PATH_MAX too: each step is made from inside the one before.
    let mut directory = fs::File::open(&from).unwrap();
    for _ in 0..1500 {
        rustix::fs::mkdirat(&directory, "deeper", rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        directory = rustix::fs::openat(&directory, "deeper", flags, rustix::fs::Mode::empty())
            .unwrap()
            .into();
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    rustix::fs::openat(&directory, "bottom", flags, rustix::fs::Mode::RUSR).unwrap();
    rustix::fs::linkat(
        &directory,
        "bottom",
        &directory,
        "bottom-again",
        rustix::fs::AtFlags::empty(),
    )
    .unwrap();
    drop(directory);
    let limit = rustix::process::Rlimit {
        current: Some(256),
        maximum: Some(256),
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let summary = copy_tree(&from, &to, &CopyOptions::VERBATIM).unwrap();
    assert_eq!(summary.entries, 1502);
    remove_tree(&to).unwrap();
    assert!(!to.exists());
    remove_tree(&to).unwrap();
}

#[test]
fn a_copy_of_a_tree_into_itself_ends() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("a")).unwrap();
    fs::write(scratch.path().join("a/file"), "x").unwrap();
    let options = CopyOptions {
        fidelity: Fidelity::BestEffort,
        ..CopyOptions::VERBATIM
    };
    let summary = copy_tree(scratch.path(), &scratch.path().join("copy"), &options).unwrap();
    assert!(scratch.path().join("copy/a/file").exists());
    assert!(!scratch.path().join("copy/copy").exists());
    assert_eq!(summary.omitted, 1);
}

#[test]
fn progress_only_grows_and_ends_at_the_summary() {
    let scratch = scratch();
    one_of_everything(&scratch.path().join("from"));
    let last = Cell::new((0, 0));
    let progress = |entries: u64, bytes: u64| {
        assert!(entries >= last.get().0);
        last.set((entries, bytes));
    };
    let options = CopyOptions {
        progress: &progress,
        ..CopyOptions::VERBATIM
    };
    let summary = copy_tree(
        &scratch.path().join("from"),
        &scratch.path().join("to"),
        &options,
    )
    .unwrap();
    assert_eq!(last.get(), (summary.entries, summary.bytes));
}

#[test]
fn remove_tree_never_removes_mounted_content() {
    let scratch = scratch();
    private_mounts();
    let (tree, mounted) = (
        scratch.path().join("tree"),
        scratch.path().join("tree/a/mounted"),
    );
    fs::create_dir_all(&mounted).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", &mounted, "tmpfs", flags, None::<&std::ffi::CStr>).unwrap();
    fs::write(mounted.join("precious"), "x").unwrap();
    for path in [&tree, &mounted, &tree.join("a")] {
        let error = remove_tree(path).unwrap_err();
        assert!(error.chain().contains("busy"), "{}", error.chain());
        assert!(mounted.join("precious").exists());
    }
    rustix::mount::unmount(&mounted, rustix::mount::UnmountFlags::empty()).unwrap();
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
}
