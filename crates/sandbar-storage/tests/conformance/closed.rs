//! Access of other local users to a storage.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use sandbar_core::ErrorCode;
use sandbar_storage::open;
use sandbar_testing::{Backend, StorageFixture, tree::set_mode};

use crate::snapshots::snap;

const OTHER: u32 = 65534;

/// Files below a directory that another user can read or run.
fn reached(directory: &Path) -> Vec<PathBuf> {
    let find = [
        "-type",
        "f",
        "(",
        "-readable",
        "-o",
        "-executable",
        ")",
        "-print0",
    ];
    let output = Command::new("find")
        .arg(directory)
        .args(find)
        .uid(OTHER)
        .gid(OTHER)
        .output()
        .unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect()
}

pub(crate) fn other_users_have_no_access_whatever_modes_existed(backend: Backend) {
    let mut fixture = StorageFixture::new(backend);
    set_mode(fixture.scratch(), 0o755);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::write(root.join("workspace/secret"), "secret").unwrap();
    fs::copy("/bin/true", root.join("workspace/raised")).unwrap();
    set_mode(&root.join("workspace/raised"), 0o4755);
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    let places: Vec<PathBuf> = match backend {
        Backend::Zfs => {
            let pool = root.ancestors().nth(3).unwrap();
            vec![pool.join("sessions"), pool.join("bases")]
        }
        _ => vec![fixture.config.directory.clone()],
    };
    for place in &places {
        // A snapshot on btrfs refuses it, and is open as far as its directories are.
        Command::new("chmod")
            .args(["-R", "--quiet", "a+rX"])
            .arg(place)
            .status()
            .unwrap();
        for above in place
            .ancestors()
            .skip(1)
            .take_while(|above| *above != Path::new("/"))
        {
            assert!(
                Command::new("chmod")
                    .arg("a+x")
                    .arg(above)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        assert!(
            !reached(place).is_empty(),
            "the test finds nothing in `{}`",
            place.display()
        );
    }
    fixture.reopen();
    let root = fixture.storage.mount(&volume).unwrap();
    assert!(root.join("workspace/raised").exists());
    for place in &places {
        let found: Vec<PathBuf> = reached(place)
            .into_iter()
            .filter(|path| path.file_name().is_some_and(|name| name != "layout"))
            .collect();
        assert_eq!(found, Vec::<PathBuf>::new());
    }
    let run = Command::new(root.join("workspace/raised"))
        .uid(OTHER)
        .gid(OTHER)
        .spawn();
    assert_eq!(
        run.unwrap_err().kind(),
        std::io::ErrorKind::PermissionDenied
    );
    if backend == Backend::BtrfsImage {
        let image = fixture.config.directory.join("pool.btrfs");
        assert!(
            !Command::new("head")
                .arg("-c1")
                .arg(image)
                .uid(OTHER)
                .gid(OTHER)
                .status()
                .unwrap()
                .success()
        );
    }
}

/// Places of the trees of sessions and bases, and the directory above them.
fn walls(fixture: &StorageFixture, backend: Backend, root: &Path) -> Vec<PathBuf> {
    if backend == Backend::Zfs {
        let pool = root.ancestors().nth(3).unwrap();
        return vec![pool.join("sessions"), pool.join("bases")];
    }
    let store = if backend == Backend::BtrfsImage {
        fixture.config.directory.join("pool")
    } else {
        fixture.config.directory.clone()
    };
    ["volumes", "bases", "mnt"]
        .map(|name| store.join(name))
        .to_vec()
}

/// Opens a directory to other users, and the way to it.
fn open_wall(wall: &Path) {
    set_mode(wall, 0o755);
    for above in wall
        .ancestors()
        .skip(1)
        .take_while(|above| *above != Path::new("/"))
    {
        let mut chmod = Command::new("chmod");
        assert!(chmod.arg("a+x").arg(above).status().unwrap().success());
    }
}

pub(crate) fn directory_opened_meanwhile_opens_no_tree(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    fs::copy("/bin/true", root.join("workspace/raised")).unwrap();
    set_mode(&root.join("workspace/raised"), 0o4755);
    fixture.storage.snapshot(&volume, &snap("s")).unwrap();
    let walls = walls(&fixture, backend, &root);
    let own: Vec<&PathBuf> = walls.iter().filter(|wall| !wall.ends_with("mnt")).collect();
    for wall in &own {
        open_wall(wall);
        let found: Vec<PathBuf> = reached(wall);
        assert_eq!(found, Vec::<PathBuf>::new());
    }
    for wall in &walls {
        set_mode(wall, 0o755);
    }
    fixture.storage.close_to_others().unwrap();
    for wall in &walls {
        assert_eq!(
            fs::metadata(wall).unwrap().permissions().mode() & 0o7777,
            0o700,
            "{}",
            wall.display()
        );
    }
    let run = Command::new(root.join("workspace/raised"))
        .uid(OTHER)
        .gid(OTHER)
        .spawn();
    assert_eq!(
        run.unwrap_err().kind(),
        std::io::ErrorKind::PermissionDenied
    );
    let linked = Command::new("ln")
        .arg(root.join("workspace/raised"))
        .arg("/tmp/sandbar-test-linked")
        .uid(OTHER)
        .gid(OTHER)
        .output();
    assert!(!linked.unwrap().status.success());
}

pub(crate) fn directory_of_another_user_is_refused_on_open(backend: Backend) {
    let fixture = StorageFixture::new(backend);
    let volume = fixture.volume("v");
    let root = fixture.storage.mount(&volume).unwrap();
    let wall = walls(&fixture, backend, &root).remove(1);
    std::os::unix::fs::chown(&wall, Some(OTHER), Some(OTHER)).unwrap();
    let error = open(fixture.close()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    assert!(
        error.message().contains("belongs to user"),
        "{}",
        error.chain()
    );
}
