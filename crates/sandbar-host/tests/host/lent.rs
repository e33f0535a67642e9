//! Directories of the machine that are visible in sandboxes with the base `host`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
};

use rustix::mount::{MountFlags, mount};
use sandbar_core::{BaseName, ExecEvent, ExecSpec, RootRights, RuntimeKind, SessionId};
use sandbar_host::HostConfig;
use sandbar_testing::Backend;

use crate::fixture::{HostFixture, spec};

/// `/opt` as it is on a machine with an application of its own, in the test's mount namespace
/// alone.
fn furnish_opt(_: &mut HostConfig) {
    fs::create_dir_all("/opt").unwrap();
    mount(
        "tmpfs",
        "/opt",
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=0755"),
    )
    .unwrap();
    fs::create_dir("/opt/closed").unwrap();
    fs::copy("/usr/bin/id", "/opt/raised").unwrap();
    for (name, mode, owner) in [
        ("readme", 0o644, 0),
        ("secret.env", 0o600, 0),
        ("group.env", 0o640, 0),
        ("of-a-user.env", 0o600, 1000),
        ("closed/file", 0o644, 0),
        ("raised", 0o4755, 0),
        ("closed", 0o700, 0),
    ] {
        let path = Path::new("/opt").join(name);
        if !path.exists() {
            fs::write(&path, "CONTENT").unwrap();
        }
        chown(&path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Runs a script as this user; returns both streams.
async fn say(fixture: &HostFixture, id: &SessionId, user: &str, script: &str) -> String {
    let spec = ExecSpec {
        user: Some(user.into()),
        ..ExecSpec::new(["/bin/sh", "-c", script])
    };
    let mut command = fixture.host.exec(id, spec).await.unwrap();
    let mut output = Vec::new();
    while let Some(event) = command.next_event().await {
        if let ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) = event {
            output.extend_from_slice(&bytes);
        }
    }
    String::from_utf8(output).unwrap()
}

fn private_files_are_closed(backend: Backend, runtime: RuntimeKind, rights: &[RootRights]) {
    HostFixture::run_with(backend, runtime, furnish_opt, |fixture| {
        let rights = rights.to_owned();
        Box::pin(async move {
            for (number, rights) in rights.into_iter().enumerate() {
                let mut spec = spec(&format!("s{number}"));
                spec.base = BaseName::new("host").unwrap();
                spec.root_rights = rights;
                let id = fixture.make(spec).await.id;
                let users: &[&str] = if runtime == RuntimeKind::None {
                    &["root"]
                } else {
                    &["root", "1000"]
                };
                for user in users {
                    let read = "cat /opt/secret.env /opt/group.env /opt/of-a-user.env /opt/closed/file 2>/dev/null; \
                                chmod 644 /opt/secret.env /opt/of-a-user.env 2>/dev/null; cat /opt/*.env 2>/dev/null; \
                                cp /opt/secret.env /tmp/copy 2>/dev/null; ls /opt/closed 2>/dev/null; cat /opt/readme";
                    assert_eq!(
                        say(fixture, &id, user, read).await,
                        "CONTENT",
                        "{rights:?} {user}"
                    );
                }
                // Neither do the host's own tools read them for a session.
                let denied = fixture
                    .host
                    .open_file(&id, "/opt/secret.env".as_ref())
                    .await
                    .unwrap_err();
                assert_eq!(
                    denied.code(),
                    sandbar_core::ErrorCode::PermissionDenied,
                    "{}",
                    denied.chain()
                );
                if rights == RootRights::Own {
                    assert_eq!(say(fixture, &id, "1000", "/opt/raised -u").await, "0\n");
                }
            }
            assert_eq!(fs::read_to_string("/opt/secret.env").unwrap(), "CONTENT");
        })
    });
}

#[test]
fn private_files_of_opt_are_closed_to_boxes_on_btrfs() {
    private_files_are_closed(
        Backend::BtrfsImage,
        RuntimeKind::Native,
        &[RootRights::Bare, RootRights::Own],
    );
}

#[test]
fn private_files_of_opt_are_closed_to_boxes_on_local_disk() {
    private_files_are_closed(
        Backend::LocalDiskExt4,
        RuntimeKind::Native,
        &[RootRights::Bare, RootRights::Own],
    );
}

#[test]
fn private_files_of_opt_are_closed_to_boxes_on_zfs() {
    private_files_are_closed(Backend::Zfs, RuntimeKind::Native, &[RootRights::Bare]);
}

#[test]
fn private_files_of_opt_are_closed_to_gvisor_boxes() {
    private_files_are_closed(
        Backend::BtrfsImage,
        RuntimeKind::Gvisor,
        &[RootRights::Bare],
    );
}
