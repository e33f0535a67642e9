//! Copies and archives made by an ordinary user.

use std::{fs, os::fd::AsFd, path::Path};

use rustix::fs::FileType;
use sandbar_testing::{
    ORDINARY_USER, again_as_user,
    tree::{make_node, set_mode, tree},
};
use sandbar_tree::{
    CopyOptions, Fidelity, OverlayInternals,
    archive::{ArchiveReader, ArchiveWriter, UnpackOptions, Unpacker},
    copy_tree, remove_tree,
};

fn source(scratch: &Path) {
    let root = scratch.join("source");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/motd"), "hello").unwrap();
    fs::hard_link(root.join("etc/motd"), root.join("etc/motd-again")).unwrap();
    fs::write(root.join("etc/shadow"), "secret").unwrap();
    set_mode(&root.join("etc/shadow"), 0o600);
    fs::create_dir(root.join("closed")).unwrap();
    set_mode(&root.join("closed"), 0o500);
    make_node(&root.join("null"), FileType::CharacterDevice, 1, 3);
    make_node(&root.join("pipe"), FileType::Fifo, 0, 0);
    let mut writer = ArchiveWriter::new(fs::File::create(scratch.join("source.tar")).unwrap());
    let directory = fs::File::open(scratch).unwrap();
    writer
        .append_tree(directory.as_fd(), Path::new("source"), Path::new("."))
        .unwrap();
    writer.finish().unwrap();
}

#[test]
fn copy_by_a_user_notes_unreadable_entries() {
    if rustix::process::geteuid().is_root() {
        return again_as_user(
            "ordinary_user::copy_by_a_user_notes_unreadable_entries",
            source,
        );
    }
    let options = CopyOptions {
        fidelity: Fidelity::BestEffort,
        overlay_internals: OverlayInternals::Drop,
        progress: &|_, _| {},
        check: &|| Ok(()),
    };
    let summary = copy_tree(Path::new("../source"), Path::new("copy"), &options).unwrap();
    let names: Vec<_> = tree(Path::new("copy"))
        .into_keys()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(
        names,
        ["", "closed", "etc", "etc/motd", "etc/motd-again", "pipe"]
    );
    for word in ["etc/shadow", "null", "closed"] {
        assert!(
            summary.notes.iter().any(|note| note.contains(word)),
            "{word}: {:?}",
            summary.notes
        );
    }
    assert!(
        copy_tree(
            Path::new("../source"),
            Path::new("exact"),
            &CopyOptions::VERBATIM
        )
        .is_err()
    );
    remove_tree(Path::new("copy")).unwrap();
    remove_tree(Path::new("exact")).unwrap();
}

#[test]
fn unpack_by_a_user_notes_what_needs_root() {
    if rustix::process::geteuid().is_root() {
        return again_as_user(
            "ordinary_user::unpack_by_a_user_notes_what_needs_root",
            source,
        );
    }
    fs::create_dir("root").unwrap();
    let mut unpacker = Unpacker::new(
        fs::File::open("root").unwrap().into(),
        UnpackOptions::CAREFUL,
    );
    unpacker
        .unpack(&mut ArchiveReader::new(
            fs::File::open("../source.tar").unwrap(),
        ))
        .unwrap();
    let summary = unpacker.summary();
    assert!(
        summary.notes.iter().any(|note| note.contains("null")),
        "{:?}",
        summary.notes
    );
    let found = tree(Path::new("root"));
    assert_eq!(found.len(), 7);
    assert_eq!(found[Path::new("closed")].mode & 0o777, 0o500);
    assert!(
        found
            .values()
            .all(|entry| entry.owner == (ORDINARY_USER, ORDINARY_USER))
    );
    remove_tree(Path::new("root")).unwrap();
    assert!(!Path::new("root").exists());
}
