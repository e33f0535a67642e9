//! Access of other local users to a storage.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

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
