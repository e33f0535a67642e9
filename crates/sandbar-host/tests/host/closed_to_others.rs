//! Access of other local users to the data of a host.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Command,
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
