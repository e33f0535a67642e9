//! Sessions whose operations do not end by themselves.

use std::{fs::File, sync::Arc, time::Duration};

use sandbar_core::{ErrorCode, ExecSpec, RuntimeKind, StorageKind};
use sandbar_testing::{Backend, take_lease};

use crate::fixture::HostFixture;

fn destroy_succeeds(backend: Backend) {
    let configure = |config: &mut sandbar_host::HostConfig| {
        config.pause_drain_timeout = Duration::from_millis(100);
    };
    HostFixture::run_with(backend, RuntimeKind::Native, configure, |fixture| {
        Box::pin(async move {
            let id = fixture.machine("s").await;
            assert_eq!(
                fixture.shell(&id, "cp /bin/true /workspace/held").await.1,
                Some(0)
            );
            let storage = fixture.config.sessions_root_dir.clone().unwrap();
            let storage = if fixture.host.capabilities().storage == StorageKind::Btrfs {
                storage.join("pool")
            } else {
                storage
            };
            let program = storage.join("mnt").join(&id).join("workspace/held");
            // Held by the test: a box cannot take a lease. Init waits until the program is loaded.
            let held = File::options()
                .read(true)
                .write(true)
                .open(program)
                .unwrap();
            take_lease(&held);
            let (host, session) = (Arc::clone(&fixture.host), id.clone());
            let starting = tokio::spawn(async move {
                host.exec(&session, ExecSpec::new(["/workspace/held"]))
                    .await
            });
            fixture
                .eventually("the program is being loaded", async || {
                    is_breaking(&held).then_some(())
                })
                .await;
            fixture.host.destroy_session(&id).await.unwrap();
            starting.await.unwrap().map(drop).unwrap_err();
            assert_eq!(
                fixture.host.get_session(&id).await.unwrap_err().code(),
                ErrorCode::SessionNotFound
            );
        })
    });
}

/// Whether something waits for the lease: it is asked to go down to nothing.
fn is_breaking(held: &File) -> bool {
    let number = std::os::unix::fs::MetadataExt::ino(&held.metadata().unwrap());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .any(|line| line.contains("LEASE  BREAKING") && line.contains(&format!(":{number} ")))
}

#[test]
fn destroy_succeeds_while_a_start_hangs_on_btrfs() {
    destroy_succeeds(Backend::BtrfsImage);
}

#[test]
fn destroy_succeeds_while_a_start_hangs_on_local_disk() {
    destroy_succeeds(Backend::LocalDiskExt4);
}
