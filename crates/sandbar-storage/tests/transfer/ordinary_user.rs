//! What somebody who is not root can do.

use std::{
    fs,
    os::{
        fd::AsFd,
        unix::{fs::MetadataExt, process::CommandExt},
    },
    path::Path,
    process::Command,
};

use rustix::fs::FileType;
use sandbar_core::{BaseName, StorageKind};
use sandbar_storage::{
    CopyOptions, Fidelity, ImportSource, OverlayInternals, StorageConfig,
    archive::{ArchiveReader, ArchiveWriter, UnpackOptions, Unpacker},
    copy_tree, import_base, open, remove_tree,
};
use sandbar_testing::tree::{make_node, scratch, set_mode, tree};

const USER: u32 = 12345;

/// Runs this test again as an ordinary user, in a directory of that user's. The copy of the program is needed because
/// an ordinary user cannot reach where it was built.
fn again_as_user(name: &str, prepare: impl FnOnce(&Path)) {
    let scratch = scratch();
    prepare(scratch.path());
    set_mode(scratch.path(), 0o755);
    let (program, place) = (scratch.path().join("program"), scratch.path().join("place"));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::create_dir(&place).unwrap();
    std::os::unix::fs::chown(&place, Some(USER), Some(USER)).unwrap();
    let output = Command::new(&program)
        .args(["--exact", name, "--nocapture"])
        .current_dir(&place)
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test ran as the user");
}

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
    writer.append_tree(directory.as_fd(), Path::new("source"), Path::new(".")).unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_copy_leaves_out_what_the_user_may_not_have_and_says_so() {
    if rustix::process::geteuid().is_root() {
        return again_as_user("ordinary_user::a_copy_leaves_out_what_the_user_may_not_have_and_says_so", source);
    }
    let options =
        CopyOptions { fidelity: Fidelity::BestEffort, overlay_internals: OverlayInternals::Drop, progress: &|_, _| {} };
    let summary = copy_tree(Path::new("../source"), Path::new("copy"), &options).unwrap();
    let names: Vec<_> = tree(Path::new("copy")).into_keys().map(|path| path.display().to_string()).collect();
    assert_eq!(names, ["", "closed", "etc", "etc/motd", "etc/motd-again", "pipe"]);
    for word in ["etc/shadow", "null", "closed"] {
        assert!(summary.notes.iter().any(|note| note.contains(word)), "{word}: {:?}", summary.notes);
    }
    assert!(copy_tree(Path::new("../source"), Path::new("exact"), &CopyOptions::VERBATIM).is_err());
    remove_tree(Path::new("copy")).unwrap();
    remove_tree(Path::new("exact")).unwrap();
}

#[test]
fn an_archive_is_unpacked_as_far_as_the_user_may() {
    if rustix::process::geteuid().is_root() {
        return again_as_user("ordinary_user::an_archive_is_unpacked_as_far_as_the_user_may", source);
    }
    fs::create_dir("root").unwrap();
    let mut unpacker = Unpacker::new(fs::File::open("root").unwrap().into(), UnpackOptions::CAREFUL);
    unpacker.unpack(&mut ArchiveReader::new(fs::File::open("../source.tar").unwrap())).unwrap();
    let summary = unpacker.summary();
    assert!(summary.notes.iter().any(|note| note.contains("null")), "{:?}", summary.notes);
    let found = tree(Path::new("root"));
    assert_eq!(found.len(), 7);
    assert_eq!(found[Path::new("closed")].mode & 0o777, 0o500);
    assert!(found.values().all(|entry| entry.owner == (USER, USER)));
    remove_tree(Path::new("root")).unwrap();
    assert!(!Path::new("root").exists());
}

#[test]
fn an_ordinary_user_imports_bases_of_every_kind() {
    if rustix::process::geteuid().is_root() {
        return again_as_user("ordinary_user::an_ordinary_user_imports_bases_of_every_kind", source);
    }
    let config = StorageConfig {
        choice: Some(StorageKind::LocalDisk),
        directory: "pool".into(),
        zfs: None,
        pool_image_limit: None,
    };
    let storage = open(&config).unwrap().storage;
    for (name, source) in [("directory", "../source"), ("archive", "../source.tar"), ("machine", "host")] {
        let base = BaseName::new(name).unwrap();
        import_base(&*storage, &base, &ImportSource::parse(source).unwrap(), &|_| {}).unwrap();
        let root = Path::new("pool/bases").join(name).join("rootfs");
        assert_eq!(fs::metadata(root.join("workspace")).unwrap().uid(), USER);
        assert!(root.join("etc").is_dir());
    }
}
