//! Access of other local users to the data of a host.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
    time::Duration,
};

use sandbar_core::RuntimeKind;
use sandbar_testing::{Backend, tree::set_mode};

use crate::fixture::HostFixture;

const OTHER: u32 = 65534;

/// The data directory was made before, as `mkdir` or a service manager makes it.
fn other_user_reaches_nothing(backend: Backend) {
    let configure = |config: &mut sandbar_host::HostConfig| {
        config.sessions_root_dir = None;
        fs::create_dir(&config.data_dir).unwrap();
        set_mode(&config.data_dir, 0o755);
        set_mode(config.data_dir.parent().unwrap(), 0o755);
    };
    HostFixture::run_with(backend, RuntimeKind::Native, configure, |fixture| {
        Box::pin(async move {
            let id = fixture.machine("s").await;
            let script = "echo SECRET-OF-A-SESSION > /workspace/s; cp /bin/cat /workspace/raised; chmod 4755 /workspace/raised";
            assert_eq!(fixture.shell(&id, script).await.1, Some(0));
            fixture.snapshot(&id, "kept").await;
            let data = &fixture.config.data_dir;
            let found = Command::new("find")
                .args([data.as_os_str(), "-name".as_ref(), "raised".as_ref()])
                .output();
            let found = String::from_utf8(found.unwrap().stdout).unwrap();
            assert!(
                !found.is_empty(),
                "the session's file is below the data directory"
            );
            for path in found.lines() {
                let run = Command::new(path)
                    .arg("/etc/shadow")
                    .uid(OTHER)
                    .gid(OTHER)
                    .output();
                assert_eq!(
                    run.unwrap_err().kind(),
                    std::io::ErrorKind::PermissionDenied,
                    "{path}"
                );
            }
            assert_eq!(
                fs::metadata(data).unwrap().permissions().mode() & 0o7777,
                0o700
            );
            let listed = Command::new("find")
                .arg(data)
                .uid(OTHER)
                .gid(OTHER)
                .output()
                .unwrap();
            assert_eq!(
                String::from_utf8(listed.stdout).unwrap(),
                format!("{}\n", data.display())
            );
        })
    });
}

#[test]
fn open_data_directory_on_local_disk_is_closed_to_other_users() {
    other_user_reaches_nothing(Backend::LocalDiskExt4);
}

#[test]
fn open_data_directory_on_btrfs_is_closed_to_other_users() {
    other_user_reaches_nothing(Backend::BtrfsImage);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Asserts that no file below a directory can be read or run by another user.
fn assert_closed(directory: &Path) {
    let find = ["-type", "f", "(", "-readable", "-o", "-executable", ")"];
    let output = Command::new("find")
        .arg(directory)
        .args(find)
        .uid(OTHER)
        .gid(OTHER)
        .output()
        .unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    let found: Vec<&str> = found
        .lines()
        .filter(|path| !path.ends_with("/layout"))
        .collect();
    assert_eq!(found, Vec::<&str>::new());
}

fn reopened_directory_is_closed_by_the_janitor(backend: Backend) {
    let configure = |config: &mut sandbar_host::HostConfig| {
        config.sessions_root_dir = None;
        config.health_check_interval = Duration::from_millis(50);
    };
    HostFixture::run_with(backend, RuntimeKind::Native, configure, |fixture| {
        Box::pin(async move {
            let id = fixture.machine("s").await;
            let script = "cp /bin/cat /workspace/raised; chmod 4755 /workspace/raised";
            assert_eq!(fixture.shell(&id, script).await.1, Some(0));
            let data = fixture.config.data_dir.clone();
            set_mode(data.parent().unwrap(), 0o755);
            // Not below `mnt`: an overlay would copy the whole base up.
            let opened = Command::new("find")
                .arg(&data)
                .args(["-name", "mnt", "-prune", "-o", "-exec"])
                .args(["chmod", "--quiet", "a+rX", "{}", "+"])
                .status();
            opened.unwrap();
            fixture
                .eventually("the janitor closes the directories", async || {
                    let storage = data.join("storage");
                    let store = match backend {
                        Backend::BtrfsImage => storage.join("pool"),
                        _ => storage,
                    };
                    (mode(&data) == 0o700 && mode(&store.join("volumes")) == 0o700).then_some(())
                })
                .await;
            assert_closed(&data);
        })
    });
}

#[test]
fn data_directory_opened_meanwhile_is_closed_on_local_disk() {
    reopened_directory_is_closed_by_the_janitor(Backend::LocalDiskExt4);
}

#[test]
fn data_directory_opened_meanwhile_is_closed_on_btrfs() {
    reopened_directory_is_closed_by_the_janitor(Backend::BtrfsImage);
}

/// `sessions_root_dir` and `object_store` are directories of their own that others may enter.
fn separate_directories_are_closed(backend: Backend) {
    let configure = |config: &mut sandbar_host::HostConfig| {
        let packs = config.data_dir.parent().unwrap().join("packs");
        for place in [config.sessions_root_dir.clone().unwrap(), packs.clone()] {
            fs::create_dir_all(&place).unwrap();
            set_mode(&place, 0o755);
            set_mode(place.parent().unwrap(), 0o755);
        }
        config.object_store = Some(packs.to_str().unwrap().to_owned());
    };
    HostFixture::run_with(backend, RuntimeKind::Native, configure, |fixture| {
        Box::pin(async move {
            let script = "echo SECRET-OF-A-SESSION > /workspace/s; cp /bin/cat /workspace/raised; chmod 4755 /workspace/raised";
            let (id, packed) = (fixture.machine("s").await, fixture.machine("p").await);
            for id in [&id, &packed] {
                assert_eq!(fixture.shell(id, script).await.1, Some(0));
            }
            fixture.snapshot(&id, "kept").await;
            let saved = "saved".parse().unwrap();
            fixture
                .host
                .save_base(&id, None, &saved, None)
                .await
                .unwrap();
            fixture.host.hibernate_session(&packed).await.unwrap();
            let config = &fixture.config;
            assert_closed(config.sessions_root_dir.as_deref().unwrap());
            let packs = config.object_store.as_deref().unwrap();
            assert!(fs::read_dir(packs).unwrap().next().is_some());
            assert_closed(Path::new(packs));
        })
    });
}

#[test]
fn separate_directories_on_local_disk_are_closed() {
    separate_directories_are_closed(Backend::LocalDiskExt4);
}

#[test]
fn separate_directories_on_btrfs_are_closed() {
    separate_directories_are_closed(Backend::BtrfsDirectory);
}
