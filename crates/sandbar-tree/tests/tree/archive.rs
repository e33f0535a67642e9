//! Archives: round trips, exchange with GNU tar, and hostile input.

use std::{
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, symlink},
        },
    },
    path::{Path, PathBuf},
    process::Command,
};

use proptest::prelude::*;
use rustix::fs::{FileType, Timespec};
use sandbar_core::{ErrorCode, Result};
use sandbar_tree::archive::{
    ArchiveEntry, ArchiveReader, ArchiveWriter, CheckedReader, Devices, Directories, EntryKind,
    Limits, Links, UnpackOptions, UnpackSummary, Unpacker, Whiteouts, WriteSummary, decompress,
};

use sandbar_testing::random_tree;
use sandbar_testing::tree::{
    allocated, assert_same, make_node, one_of_everything, scratch, set_xattr, tree,
};

fn run(command: &mut std::process::Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn open(path: &Path) -> OwnedFd {
    fs::File::open(path).unwrap().into()
}

fn archive(root: &Path) -> (Vec<u8>, WriteSummary) {
    let mut writer = ArchiveWriter::new(Vec::new());
    let parent = open(root.parent().unwrap());
    writer
        .append_tree(
            parent.as_fd(),
            Path::new(root.file_name().unwrap()),
            Path::new("."),
        )
        .unwrap();
    writer.finish().unwrap()
}

fn unpack_with(bytes: &[u8], root: &Path, options: UnpackOptions<'_>) -> Result<UnpackSummary> {
    fs::create_dir_all(root).unwrap();
    let mut unpacker = Unpacker::new(open(root), options);
    unpacker.unpack(&mut ArchiveReader::new(decompress(bytes)?))?;
    Ok(unpacker.summary().clone())
}

fn unpack(bytes: &[u8], root: &Path) -> Result<UnpackSummary> {
    let options = UnpackOptions {
        devices: Devices::Make,
        ..UnpackOptions::CAREFUL
    };
    unpack_with(bytes, root, options)
}

fn entry(path: &str, kind: EntryKind) -> ArchiveEntry {
    ArchiveEntry {
        path: path.into(),
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        modified: Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        },
        size: 0,
        segments: None,
        xattrs: Vec::new(),
    }
}

fn file(path: &str, content: &str) -> (ArchiveEntry, String) {
    (
        ArchiveEntry {
            size: content.len() as u64,
            ..entry(path, EntryKind::File)
        },
        content.to_owned(),
    )
}

fn link(path: &str, target: &str) -> (ArchiveEntry, String) {
    (
        entry(
            path,
            EntryKind::Symlink {
                target: target.into(),
            },
        ),
        String::new(),
    )
}

fn hard_link(path: &str, target: &str) -> (ArchiveEntry, String) {
    (
        entry(
            path,
            EntryKind::HardLink {
                target: target.into(),
            },
        ),
        String::new(),
    )
}

fn directory(path: &str) -> (ArchiveEntry, String) {
    (entry(path, EntryKind::Directory), String::new())
}

fn made_of(entries: &[(ArchiveEntry, String)]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new());
    for (entry, content) in entries {
        writer.append(entry, &mut content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().0
}

#[test]
fn a_tree_comes_back_whole() {
    let scratch = scratch();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    one_of_everything(&from);
    let (bytes, written) = archive(&from);
    let summary = unpack(&bytes, &to).unwrap();
    assert_same(&tree(&from), &tree(&to));
    assert_eq!((summary.omitted, &summary.notes[..]), (0, &[][..]));
    assert_eq!(summary.entries, written.entries);
    assert_eq!(summary.bytes, written.bytes);
    for sparse in ["holes", "all-hole", "hole-at-end"] {
        assert!(allocated(&to.join(sparse)) < 1 << 20, "{sparse} was filled");
    }
    assert!(bytes.len() < 1 << 20, "holes were written");
}

#[test]
fn equal_trees_make_equal_archives() {
    let scratch = scratch();
    let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
    one_of_everything(&one);
    unpack(&archive(&one).0, &two).unwrap();
    assert!(archive(&one).0 == archive(&two).0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_tree_comes_back_whole(nodes in random_tree()) {
        let scratch = scratch();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir(&from).unwrap();
        for node in &nodes {
            node.make(&from);
        }
        unpack(&archive(&from).0, &to).unwrap();
        assert_same(&tree(&from), &tree(&to));
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_leave_its_root(
        nodes in random_tree(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let scratch = scratch();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir(&from).unwrap();
        for node in &nodes {
            node.make(&from);
        }
        let (mut bytes, _) = archive(&from);
        for (index, value) in flips {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        drop(unpack_with(&bytes, &to, UnpackOptions { limits: Limits { entries: 1000, bytes: 1 << 24, ..Limits::DEFAULT }, ..UnpackOptions::CAREFUL }));
        let mut names: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|name| name.unwrap().file_name()).collect();
        names.sort();
        prop_assert_eq!(names, ["from", "to"]);
    }
}

#[test]
fn gnu_tar_reads_our_archives() {
    let scratch = scratch();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    one_of_everything(&from);
    let path = scratch.path().join("archive.tar");
    fs::write(&path, archive(&from).0).unwrap();
    fs::create_dir(&to).unwrap();
    run(Command::new("tar")
        .args(["--xattrs", "--xattrs-include=*", "-xpf"])
        .arg(&path)
        .arg("-C")
        .arg(&to));
    assert_same(&tree(&from), &tree(&to));
    assert!(allocated(&to.join("holes")) < 1 << 20);
}

#[test]
fn reader_reads_every_format_of_gnu_tar() {
    let formats: [&[&str]; 6] = [
        &[
            "--format=posix",
            "--xattrs",
            "--xattrs-include=*",
            "--sparse",
        ],
        &["--format=posix", "--sparse", "--sparse-version=0.1"],
        &["--format=posix", "--sparse", "--sparse-version=0.0"],
        &["--format=gnu", "--sparse"],
        &["--format=gnu", "--gzip"],
        &["--format=posix", "--zstd"],
    ];
    for (number, options) in formats.into_iter().enumerate() {
        let scratch = scratch();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        one_of_everything(&from);
        let path = scratch.path().join("archive.tar");
        run(Command::new("tar")
            .args(options)
            .arg("-cf")
            .arg(&path)
            .arg("-C")
            .arg(&from)
            .arg("."));
        unpack(&fs::read(&path).unwrap(), &to).unwrap();
        let (mut expected, mut got) = (tree(&from), tree(&to));
        if number > 0 {
            // Only the first keeps attributes, and the GNU format has whole seconds.
            for tree in [&mut expected, &mut got] {
                for entry in tree.values_mut() {
                    entry.xattrs.clear();
                    entry.modified.1 = 0;
                    entry.mode &= !0o070;
                }
            }
            for tree in [&mut expected, &mut got] {
                // Rounding goes down in one format and towards zero in the other.
                tree.get_mut(Path::new("empty")).unwrap().modified.0 = 0;
            }
        }
        assert_same(&expected, &got);
        if options.contains(&"--sparse") {
            assert!(allocated(&to.join("holes")) < 1 << 20, "{options:?}");
        }
    }
}

#[test]
fn sockets_are_skipped_and_counted() {
    let scratch = scratch();
    let from = scratch.path().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("file"), "x").unwrap();
    make_node(&from.join("socket"), FileType::Socket, 0, 0);
    let (bytes, summary) = archive(&from);
    assert_eq!((summary.sockets_skipped, summary.entries), (1, 2));
    unpack(&bytes, &scratch.path().join("to")).unwrap();
    assert!(!scratch.path().join("to/socket").exists());
}

#[test]
fn overlay_attributes_never_travel() {
    let scratch = scratch();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir_all(from.join("opaque")).unwrap();
    set_xattr(&from.join("opaque"), "trusted.overlay.opaque", b"y");
    set_xattr(&from.join("opaque"), "user.kept", b"y");
    unpack(&archive(&from).0, &to).unwrap();
    let after = tree(&to);
    assert_eq!(
        after[Path::new("opaque")].xattrs.keys().collect::<Vec<_>>(),
        ["user.kept"]
    );

    let mut hostile = directory("d").0;
    hostile
        .xattrs
        .push((c"trusted.overlay.redirect".to_owned(), b"/etc".to_vec()));
    let whiteout = entry("w", EntryKind::CharDevice { major: 0, minor: 0 });
    let summary = unpack(
        &made_of(&[(hostile, String::new()), (whiteout, String::new())]),
        &to,
    )
    .unwrap();
    assert!(tree(&to)[Path::new("d")].xattrs.is_empty());
    assert!(!to.join("w").exists());
    assert_eq!(summary.omitted, 1);
}

#[test]
fn a_name_with_two_dots_is_refused_by_name() {
    for path in ["../escape", "a/../../escape", "/../escape", "a/.."] {
        let scratch = scratch();
        let error = unpack(&made_of(&[file(path, "x")]), &scratch.path().join("root")).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains(path), "{error}");
        assert!(!scratch.path().join("escape").exists());
    }
}

#[test]
fn absolute_names_land_below_the_root() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    unpack(&made_of(&[file("//etc/./passwd", "mine")]), &root).unwrap();
    assert_eq!(fs::read_to_string(root.join("etc/passwd")).unwrap(), "mine");
}

#[test]
fn unpack_writes_nothing_through_a_link_out_of_the_root() {
    for target in ["/", "..", "../outside", "/proc/self/root", "/proc/self/cwd"] {
        for links in [Links::Refuse, Links::FollowInRoot] {
            let scratch = scratch();
            let (root, outside) = (scratch.path().join("root"), scratch.path().join("outside"));
            fs::create_dir(&outside).unwrap();
            fs::write(outside.join("victim"), "untouched").unwrap();
            let bytes = made_of(&[
                link("escape", target),
                file("escape/victim", "overwritten"),
                file("escape/outside/victim", "overwritten"),
                directory("escape/outside"),
                link("victim-link", &format!("{}/victim", outside.display())),
                file("victim-link", "overwritten"),
            ]);
            let outcome = unpack_with(
                &bytes,
                &root,
                UnpackOptions {
                    links,
                    ..UnpackOptions::CAREFUL
                },
            );
            assert!(
                links == Links::FollowInRoot || outcome.is_err(),
                "{target} {outcome:?}"
            );
            assert_eq!(
                fs::read_to_string(outside.join("victim")).unwrap(),
                "untouched"
            );
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
            assert!(!Path::new("/victim").exists());
        }
    }
}

#[test]
fn unpacked_hard_link_stays_below_the_root() {
    let scratch = scratch();
    let (root, outside) = (scratch.path().join("root"), scratch.path().join("secret"));
    fs::create_dir(&root).unwrap();
    fs::write(&outside, "secret").unwrap();
    symlink(scratch.path(), root.join("up")).unwrap();
    for target in [
        outside.to_str().unwrap(),
        "../secret",
        "up/secret",
        "missing",
        "/",
        "up",
    ] {
        for links in [Links::Refuse, Links::FollowInRoot] {
            let bytes = made_of(&[hard_link("stolen", target)]);
            let outcome = unpack_with(
                &bytes,
                &root,
                UnpackOptions {
                    links,
                    ..UnpackOptions::CAREFUL
                },
            );
            assert_eq!(outcome.is_ok(), target == "up", "{target}: {outcome:?}");
            assert_eq!(fs::metadata(&outside).unwrap().nlink(), 1);
        }
    }
    assert!(
        fs::symlink_metadata(root.join("stolen"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn later_entries_win_and_types_may_change() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    let bytes = made_of(&[
        file("a", "first"),
        hard_link("b", "a"),
        file("a", "second"),
        directory("c"),
        file("c", "file now"),
        link("d", "/elsewhere"),
        directory("d"),
        file("d/e", "in it"),
        hard_link("a", "a"),
    ]);
    unpack(&bytes, &root).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "second");
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "first");
    assert_eq!(fs::read_to_string(root.join("c")).unwrap(), "file now");
    assert_eq!(fs::read_to_string(root.join("d/e")).unwrap(), "in it");
}

#[test]
fn a_full_directory_gives_way_only_when_asked() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    fs::create_dir_all(root.join("kept/inside")).unwrap();
    let bytes = made_of(&[file("kept", "x")]);
    let error = unpack(&bytes, &root).unwrap_err();
    assert!(error.message().contains("`kept`") && error.hint().is_some());
    assert!(root.join("kept/inside").is_dir());
    unpack_with(
        &bytes,
        &root,
        UnpackOptions {
            directories: Directories::Replace,
            ..UnpackOptions::CAREFUL
        },
    )
    .unwrap();
    assert!(root.join("kept").is_file());
}

#[test]
fn limits_stop_an_archive() {
    let scratch = scratch();
    let bytes = made_of(&[file("a", "12345"), file("b", "12345"), file("c", "12345")]);
    for limits in [
        Limits {
            entries: 2,
            ..Limits::NONE
        },
        Limits {
            bytes: 14,
            ..Limits::NONE
        },
    ] {
        let error = unpack_with(
            &bytes,
            &scratch.path().join("r"),
            UnpackOptions {
                limits,
                ..UnpackOptions::CAREFUL
            },
        );
        assert!(error.unwrap_err().message().contains("more than"));
    }
    let limits = Limits {
        entries: 3,
        bytes: 15,
        ..Limits::NONE
    };
    unpack_with(
        &bytes,
        &scratch.path().join("r"),
        UnpackOptions {
            limits,
            ..UnpackOptions::CAREFUL
        },
    )
    .unwrap();
}

#[test]
fn a_cut_archive_is_an_error_at_every_length() {
    let scratch = scratch();
    let bytes = made_of(&[file(&"n".repeat(150), &"x".repeat(700)), directory("d")]);
    let end = bytes.len() - 1024;
    for length in (1..end).step_by(37).filter(|length| length % 512 != 0) {
        assert!(
            unpack(&bytes[..length], &scratch.path().join("r")).is_err(),
            "{length}"
        );
    }
}

#[test]
fn whiteouts_hide_older_layers_and_nothing_of_their_own() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    fs::create_dir(&root).unwrap();
    let options = UnpackOptions {
        links: Links::FollowInRoot,
        directories: Directories::Replace,
        whiteouts: Whiteouts::Oci,
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(open(&root), options);
    let layers = [
        made_of(&[
            directory("usr/lib"),
            link("lib", "usr/lib"),
            file("gone", "x"),
            file("tree/deep/file", "x"),
            file("opaque/old", "x"),
            file("opaque/both", "old"),
            file("opaque/sub/old", "x"),
        ]),
        made_of(&[
            file(".wh.gone", ""),
            file(".wh.tree", ""),
            file("opaque/new", "x"),
            file("opaque/both", "new"),
            file("opaque/sub/new", "x"),
            file("opaque/.wh..wh..opq", ""),
            file("opaque/later", "x"),
            file("lib/module", "x"),
            file("own", "x"),
            file(".wh.own", ""),
            file("missing/.wh.nothing", ""),
            file(".wh..wh.plnk", ""),
        ]),
    ];
    for layer in &layers {
        unpacker
            .unpack(&mut ArchiveReader::new(&layer[..]))
            .unwrap();
    }
    let names: Vec<PathBuf> = tree(&root).into_keys().collect();
    let expected = [
        "",
        "lib",
        "opaque",
        "opaque/both",
        "opaque/later",
        "opaque/new",
        "opaque/sub",
        "opaque/sub/new",
        "own",
        "usr",
        "usr/lib",
        "usr/lib/module",
    ];
    assert_eq!(names, expected.map(PathBuf::from));
    assert_eq!(fs::read_to_string(root.join("opaque/both")).unwrap(), "new");
}

#[test]
fn the_owner_can_be_fixed() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    let options = UnpackOptions {
        owner: Some((1000, 1001)),
        ..UnpackOptions::CAREFUL
    };
    unpack_with(
        &made_of(&[directory("d"), file("d/f", "x"), link("l", "x")]),
        &root,
        options,
    )
    .unwrap();
    for name in ["d", "d/f", "l"] {
        let metadata = fs::symlink_metadata(root.join(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1000, 1001), "{name}");
    }
}

#[test]
fn a_single_file_can_be_archived_under_another_name() {
    let scratch = scratch();
    fs::write(scratch.path().join("file"), "content").unwrap();
    let mut writer = ArchiveWriter::new(Vec::new());
    let directory = open(scratch.path());
    writer
        .append_tree(directory.as_fd(), Path::new("file"), Path::new("renamed"))
        .unwrap();
    let (bytes, _) = writer.finish().unwrap();
    let mut reader = ArchiveReader::new(&bytes[..]);
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!(
        Path::new(std::ffi::OsStr::from_bytes(&entry.path)),
        Path::new("renamed")
    );
    assert!(reader.next_entry().unwrap().is_none());
}

#[test]
fn other_compressions_are_named() {
    for (start, name) in [(&b"\xfd7zXZ\0"[..], "xz"), (b"BZh9", "bzip2")] {
        let error = decompress(start).err().unwrap();
        assert!(error.message().contains(name) && error.hint().is_some());
    }
}

/// A member after extended records, as `tar` writes them.
fn with_records(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder
        .append_pax_extensions(records.iter().copied())
        .unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(0);
    builder
        .append_data(&mut header, "file", std::io::empty())
        .unwrap();
    builder.into_inner().unwrap()
}

#[test]
fn a_member_as_long_as_a_number_can_be_is_cut_short() {
    for size in [u64::MAX, u64::MAX - 511, i64::MAX.unsigned_abs()] {
        let bytes = with_records(&[("size", size.to_string().as_bytes())]);
        let mut reader = ArchiveReader::new(&bytes[..]);
        assert_eq!(reader.next_entry().unwrap().unwrap().size, size);
        let error = reader.next_entry().unwrap_err();
        assert!(error.message().contains("cut short"), "{error}");
    }
}

#[test]
fn global_headers_beyond_the_limit_are_refused() {
    let mut bytes = with_records(&[("comment", &vec![b'x'; 100 << 10])]);
    // Turns the header of one member into a global one.
    bytes[156] = b'g';
    let sum: u32 = bytes[..512]
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            if (148..156).contains(&at) {
                32
            } else {
                u32::from(*byte)
            }
        })
        .sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let error = ArchiveReader::new(&bytes[..]).next_entry().unwrap_err();
    assert!(error.message().contains("global headers"), "{error}");
}

/// Unpacks with limits, and returns the message of the refusal.
fn refusal(bytes: &[u8], limits: Limits) -> String {
    let scratch = scratch();
    let options = UnpackOptions {
        limits,
        whiteouts: Whiteouts::Oci,
        ..UnpackOptions::CAREFUL
    };
    let error = unpack_with(bytes, &scratch.path().join("root"), options).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    error.message().to_owned()
}

fn with_attributes(path: &str, count: usize, size: usize) -> (ArchiveEntry, String) {
    let mut entry = entry(path, EntryKind::Directory);
    entry.xattrs = (0..count)
        .map(|number| {
            let name = std::ffi::CString::new(format!("user.{number}")).unwrap();
            (name, vec![b'x'; size])
        })
        .collect();
    (entry, String::new())
}

#[test]
fn every_limit_of_an_archive_is_named_when_exceeded() {
    let many: Vec<_> = (0..50)
        .map(|number| file(&format!("file-{number}"), ""))
        .collect();
    let limits = Limits::DEFAULT;
    let names = Limits {
        names: 300,
        ..limits
    };
    let message = refusal(&made_of(&many), names);
    assert!(message.contains("300 bytes of names"), "{message}");
    let links = [link("a", &"t".repeat(400))];
    let message = refusal(&made_of(&links), names);
    assert!(
        message.contains("300 bytes of names and link targets"),
        "{message}"
    );
    let attributes: Vec<_> = (0..4)
        .map(|number| with_attributes(&format!("d{number}"), 2, 100))
        .collect();
    let message = refusal(
        &made_of(&attributes),
        Limits {
            attributes: 500,
            ..limits
        },
    );
    assert!(
        message.contains("500 bytes of extended attributes"),
        "{message}"
    );
    let message = refusal(&made_of(&[with_attributes("d", 1001, 0)]), limits);
    assert!(
        message.contains("more than 1000 extended attributes"),
        "{message}"
    );
    let deep = made_of(&[file(&"d/".repeat(5000), "")]);
    let message = refusal(&deep, limits);
    assert!(message.contains("more than 4096 levels deep"), "{message}");
    assert!(message.len() < 300, "{message}");
    let entries = Limits {
        entries: 10,
        ..limits
    };
    let message = refusal(&made_of(&many), entries);
    assert!(message.contains("more than 10 entries"), "{message}");
}

#[test]
fn global_attributes_count_for_each_member() {
    // 30 KB that would be kept for each of many small members.
    let mut records = with_records(&[("SCHILY.xattr.user.x", &vec![b'x'; 30_000])]);
    records[156] = b'g';
    let sum: u32 = records[..148]
        .iter()
        .chain(&[b' '; 8])
        .chain(&records[156..512])
        .map(|byte| u32::from(*byte))
        .sum();
    records[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    records.truncate(512 + 30_208);
    let directories: Vec<_> = (0..3000)
        .map(|number| directory(&format!("d{number}")))
        .collect();
    let bytes = [records, made_of(&directories)].concat();
    let message = refusal(&bytes, Limits::DEFAULT);
    assert!(
        message.contains("bytes of extended attributes"),
        "{message}"
    );
}

#[test]
fn bomb_of_skipped_data_is_stopped_by_the_stream_limit() {
    // A member of an unknown type, whose data is skipped and counts for no file.
    let mut header = tar::Header::new_ustar();
    header.set_path("skipped").unwrap();
    header.set_entry_type(tar::EntryType::new(b'Z'));
    header.set_size(1 << 33);
    header.set_mode(0o644);
    header.set_cksum();
    let stream = std::io::Read::chain(&header.as_bytes()[..], std::io::repeat(7));
    let limits = Limits {
        stream: 1 << 20,
        ..Limits::DEFAULT
    };
    let mut reader = ArchiveReader::new(stream).with_limits(limits);
    assert_eq!(
        reader.next_entry().unwrap().unwrap().kind,
        EntryKind::Other(b'Z')
    );
    let error = reader.next_entry().unwrap_err();
    assert!(
        error.message().contains("1048576 decompressed bytes"),
        "{error}"
    );
    assert!(reader.bytes_read() < 2 << 20);
}

#[test]
fn stream_limit_counts_all_layers_together() {
    let scratch = scratch();
    let layer = made_of(&[file("a", &"x".repeat(5000))]);
    let options = UnpackOptions {
        limits: Limits {
            stream: 2 * layer.len() as u64,
            ..Limits::DEFAULT
        },
        ..UnpackOptions::CAREFUL
    };
    let mut unpacker = Unpacker::new(open(scratch.path()), options);
    let mut add = || unpacker.unpack(&mut ArchiveReader::new(layer.as_slice()));
    add().unwrap();
    add().unwrap();
    assert!(add().unwrap_err().message().contains("decompressed bytes"));
}

#[test]
fn repeated_extended_headers_are_refused() {
    let header = with_records(&[("comment", b"again")]);
    let header = &header[..1024];
    let bytes = header.repeat(17);
    let error = ArchiveReader::new(bytes.as_slice())
        .next_entry()
        .unwrap_err();
    assert!(
        error.message().contains("more than 16 extended headers"),
        "{error}"
    );
}

#[test]
fn header_of_too_many_records_is_refused() {
    let records = vec![("a", &b""[..]); 200_000];
    let bytes = with_records(&records);
    ArchiveReader::new(bytes.as_slice())
        .next_entry()
        .unwrap_err();
}

#[test]
fn check_stops_an_archive_in_the_middle() {
    let scratch = scratch();
    let (done, root) = (std::cell::Cell::new(0), scratch.path().join("root"));
    let check = || {
        done.set(done.get() + 1);
        if done.get() > 30 {
            return Err(sandbar_core::Error::new(
                ErrorCode::Timeout,
                "caller is gone",
            ));
        }
        Ok(())
    };
    let many: Vec<_> = (0..1000)
        .map(|number| file(&format!("{number}"), "x"))
        .collect();
    let options = UnpackOptions {
        check: &check,
        ..UnpackOptions::CAREFUL
    };
    let error = unpack_with(&made_of(&many), &root, options).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert!(fs::read_dir(&root).unwrap().count() < 30);
    // And while data is skipped, by the stream.
    let mut header = tar::Header::new_ustar();
    header.set_path("skipped").unwrap();
    header.set_entry_type(tar::EntryType::new(b'Z'));
    header.set_size(1 << 40);
    header.set_mode(0o644);
    header.set_cksum();
    done.set(0);
    let stream = std::io::Read::chain(&header.as_bytes()[..], std::io::repeat(7));
    let mut reader = ArchiveReader::new(CheckedReader::new(stream, &check));
    reader.next_entry().unwrap();
    assert_eq!(reader.next_entry().unwrap_err().code(), ErrorCode::Timeout);
}

#[test]
fn devices_and_whiteouts_of_an_archive_are_left_out() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    let device = |path: &str, kind| (entry(path, kind), String::new());
    let bytes = made_of(&[
        device("disk", EntryKind::BlockDevice { major: 8, minor: 0 }),
        device("memory", EntryKind::CharDevice { major: 1, minor: 1 }),
        device("whiteout", EntryKind::CharDevice { major: 0, minor: 0 }),
        device("pipe", EntryKind::Fifo),
        file(".wh.ordinary", "x"),
        hard_link("again", "disk"),
    ]);
    let summary = unpack_with(&bytes, &root, UnpackOptions::CAREFUL).unwrap();
    let mut names: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".wh.ordinary", "pipe"]);
    assert_eq!(
        (summary.omitted, summary.notes.len()),
        (4, 4),
        "{:?}",
        summary.notes
    );
}

#[test]
fn attributes_of_an_archive_are_kept_except_those_of_overlays() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    let capability = sandbar_testing::tree::capability();
    let acl = sandbar_testing::tree::acl();
    let mut all = file("f", "x");
    all.0.mode = 0o6755;
    for (name, value) in [
        (c"security.capability", capability.as_slice()),
        (c"system.posix_acl_access", &acl),
        (c"trusted.overlay.opaque", b"y"),
        (c"trusted.overlay.redirect", b"/etc"),
        (c"user.overlay.whiteout", b""),
        (c"user.overlay.metacopy", b""),
        (c"user.plain", b"kept"),
    ] {
        all.0.xattrs.push((name.to_owned(), value.to_vec()));
    }
    unpack_with(&made_of(&[all]), &root, UnpackOptions::CAREFUL).unwrap();
    let found = &tree(&root)[Path::new("f")];
    let names: Vec<_> = found
        .xattrs
        .keys()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert_eq!(
        names,
        [
            "security.capability",
            "system.posix_acl_access",
            "user.plain"
        ]
    );
    assert_eq!(
        fs::metadata(root.join("f")).unwrap().mode() & 0o6000,
        0o6000
    );
}

#[test]
fn deep_parents_are_found_and_made_at_any_depth() {
    let scratch = scratch();
    let root = scratch.path().join("root");
    let path = |levels: usize| format!("{}file", "directory/".repeat(levels));
    let files: Vec<_> = [0, 1, 200, 2, 500, 499, 201, 1000]
        .map(|levels| file(&path(levels), "x"))
        .into();
    let summary = unpack(&made_of(&files), &root).unwrap();
    assert_eq!(summary.entries, 8);
    let (_, written) = archive(&root);
    assert_eq!(written.entries, 1000 + 8 + 1);
}
