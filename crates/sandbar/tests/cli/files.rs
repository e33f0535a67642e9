//! `cp`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Stdio,
};

use sandbar_testing::tree::scratch;

use crate::world::World;

#[test]
fn file_is_copied_in_and_out_with_its_mode() {
    let (world, here) = (World::new(), scratch());
    world.sandbox("box");
    let file = here.path().join("tool");
    fs::write(&file, "#!/bin/sh\necho works\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    world
        .run_in(here.path(), &["cp", "tool", "box:renamed"])
        .data();
    assert_eq!(
        world.run(["exec", "box", "--", "./renamed"]).data(),
        "works\n"
    );
    world
        .run_in(here.path(), &["cp", "tool", "box:/tmp"])
        .data();
    assert_eq!(
        world.run(["exec", "box", "--", "/tmp/tool"]).data(),
        "works\n"
    );
    world
        .run_in(here.path(), &["cp", "box:/tmp/tool", "back"])
        .data();
    assert_eq!(
        fs::read(&file).unwrap(),
        fs::read(here.path().join("back")).unwrap()
    );
    assert_eq!(
        fs::metadata(here.path().join("back"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o755
    );
    world
        .run_in(here.path(), &["cp", "box:renamed", "."])
        .data();
    assert!(here.path().join("renamed").is_file());
}

#[test]
fn directory_is_copied_into_an_existing_or_to_a_new_one() {
    let (world, here) = (World::new(), scratch());
    world.sandbox("box");
    let source = here.path().join("source");
    fs::create_dir_all(source.join("deep")).unwrap();
    fs::write(source.join("deep/file"), "content").unwrap();
    symlink("deep/file", source.join("link")).unwrap();
    world
        .run_in(here.path(), &["cp", "source", "box:made"])
        .data();
    assert_eq!(
        world.shell("box", "cat made/link; readlink made/link"),
        "contentdeep/file\n"
    );
    world
        .run_in(here.path(), &["cp", "source", "box:made"])
        .data();
    assert_eq!(world.shell("box", "cat made/source/deep/file"), "content");
    world.shell("box", "mkdir flat");
    world
        .run_in(here.path(), &["cp", "source/.", "box:flat"])
        .data();
    assert_eq!(world.shell("box", "ls flat"), "deep\nlink\n");

    world
        .run_in(here.path(), &["cp", "box:made", "fresh"])
        .data();
    assert_eq!(
        fs::read_to_string(here.path().join("fresh/deep/file")).unwrap(),
        "content"
    );
    world
        .run_in(here.path(), &["cp", "box:made", "fresh"])
        .data();
    assert_eq!(
        fs::read_link(here.path().join("fresh/made/link"))
            .unwrap()
            .to_str(),
        Some("deep/file")
    );
    fs::create_dir(here.path().join("flat")).unwrap();
    world
        .run_in(here.path(), &["cp", "box:made/.", "flat"])
        .data();
    assert_eq!(
        fs::read_to_string(here.path().join("flat/source/deep/file")).unwrap(),
        "content"
    );
}

#[test]
fn a_dash_means_a_tar_on_stdin_or_stdout() {
    let (world, here) = (World::new(), scratch());
    world.sandbox("box");
    world.shell("box", "mkdir out; echo data > out/file");
    let tar = world
        .server
        .client(["cp", "box:out", "-"])
        .output()
        .unwrap();
    assert!(tar.status.success(), "{tar:?}");
    world.shell("box", "mkdir elsewhere");
    world
        .run_with(&tar.stdout, &["cp", "-", "box:elsewhere"])
        .data();
    assert_eq!(world.shell("box", "cat elsewhere/out/file"), "data\n");
    fs::write(here.path().join("stream.tar"), &tar.stdout).unwrap();
    let listed = std::process::Command::new("tar")
        .arg("tf")
        .arg(here.path().join("stream.tar"))
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(listed.stdout).unwrap(),
        "out/\nout/file\n"
    );
    world
        .run_with(b"this is no tar", &["cp", "-", "box:elsewhere"])
        .refused(1, &[]);
}

#[test]
fn a_large_file_survives_the_way_there_and_back() {
    let (world, here) = (World::new(), scratch());
    world.sandbox("box");
    let content: Vec<u8> = (0..5_000_000u32)
        .map(|index| u8::try_from(index * 7 % 251).unwrap())
        .collect();
    fs::write(here.path().join("large"), &content).unwrap();
    world
        .run_in(here.path(), &["cp", "large", "box:large"])
        .data();
    world
        .run_in(here.path(), &["cp", "box:large", "back"])
        .data();
    assert!(fs::read(here.path().join("back")).unwrap() == content);
}

#[test]
fn failed_copy_names_the_path_and_creates_nothing() {
    let (world, here) = (World::new(), scratch());
    world.sandbox("box");
    fs::write(here.path().join("file"), "x").unwrap();
    fs::create_dir(here.path().join("dir")).unwrap();
    world.shell("box", "touch taken");
    let refuse = |arguments: &[&str], code, part: &str| {
        world.run_in(here.path(), arguments).refused(code, &[part]);
    };
    refuse(&["cp", "missing", "box:x"], 1, "missing");
    refuse(&["cp", "box:missing", "x"], 1, "missing");
    refuse(&["cp", "file", "gone:x"], 1, "gone");
    refuse(&["cp", "file", "box:no/such/place"], 1, "no/such");
    refuse(&["cp", "file", "box:newdir/"], 1, "newdir");
    refuse(&["cp", "dir", "box:taken"], 1, "taken");
    refuse(&["cp", "box:taken", "no/such/place"], 1, "no/such");
    refuse(&["cp", "box:/workspace", "file"], 1, "file");
    refuse(&["cp", "-", "box:missing"], 1, "missing");
    refuse(&["cp", "file", "other"], 2, "neither side");
    refuse(&["cp", "box:taken", "box:copy"], 2, "both sides");
    refuse(&["cp", "bad id:x", "y"], 2, "ID:path");
    assert_eq!(world.shell("box", "ls"), "taken\n");
}

#[test]
fn a_link_in_a_sandbox_cannot_plant_a_file_outside_the_target() {
    let (world, here) = (World::new(), scratch());
    world.sandbox("box");
    let outside = here.path().join("outside");
    fs::create_dir(&outside).unwrap();
    // A tar that writes through a link it made itself, as a hostile sandbox would send it.
    world.shell(
        "box",
        &format!("mkdir evil; ln -s {} evil/link", outside.display()),
    );
    world
        .run_in(here.path(), &["cp", "box:evil", "evil"])
        .data();
    assert!(
        fs::symlink_metadata(here.path().join("evil/link"))
            .unwrap()
            .is_symlink()
    );
    // A second copy must not go through the link the first one made; it takes the link's place.
    world.shell(
        "box",
        "rm evil/link; mkdir evil/link; echo planted > evil/link/file",
    );
    world
        .run_in(here.path(), &["cp", "box:evil/.", "evil"])
        .data();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(
        fs::read_to_string(here.path().join("evil/link/file")).unwrap(),
        "planted\n"
    );
}

#[test]
fn closed_stdout_ends_a_tar_quietly() {
    let world = World::new();
    world.sandbox("box");
    world.shell("box", "head -c 8000000 /dev/zero > zeros");
    let mut child = world
        .server
        .client(["cp", "box:zeros", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
