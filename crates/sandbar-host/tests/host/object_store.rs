//! Packs of hibernated sessions in directories and buckets.

use std::{fs, process::Command, time::Duration};

use sandbar_core::{ErrorCode, RuntimeKind, SessionState, StorageKind};
use sandbar_host::{Host, HostConfig, ImportSource, RuntimeChoice, StorageChoice};
use sandbar_testing::{Backend, MotoS3, small_base};

use crate::{
    fixture::{HostFixture, spec},
    hibernate::{Case, hibernate, packs_are_gone, packs_directory, state, wake},
};

fn on_one_host(case: impl for<'a> FnOnce(&'a mut HostFixture) -> Case<'a>) {
    HostFixture::run(Backend::LocalDiskExt4, RuntimeKind::None, case);
}

#[test]
fn failed_deletion_of_a_pack_is_logged_and_repeated() {
    on_one_host(|fixture| {
        Box::pin(async {
            let config = HostConfig {
                health_check_interval: Duration::from_millis(20),
                ..fixture.config.clone()
            };
            fixture.config = config;
            fixture.restart().await;
            let id = fixture.session("s").await;
            hibernate(fixture, &id).await;
            let (directory, aside) = (
                packs_directory(fixture),
                fixture.storage.scratch().join("aside"),
            );
            fs::rename(&directory, &aside).unwrap();
            fs::write(&directory, "in the way").unwrap();
            fixture.host.destroy_session(&id).await.unwrap_err();
            // Also by the next host.
            fixture.restart().await;
            assert_eq!(state(fixture, &id).await, SessionState::Destroying);
            fs::remove_file(&directory).unwrap();
            fs::rename(&aside, &directory).unwrap();
            packs_are_gone(fixture).await;
            fixture
                .eventually("it is gone", async || {
                    fixture.host.get_session(&id).await.is_err().then_some(())
                })
                .await;
        })
    });
}

#[test]
fn two_hosts_can_share_an_object_store() {
    on_one_host(|fixture| {
        Box::pin(async {
            let store = fixture
                .storage
                .scratch()
                .join("shared")
                .to_str()
                .unwrap()
                .to_owned();
            fixture.config.object_store = Some(store.clone());
            fixture.restart().await;
            let other = Host::start(HostConfig {
                data_dir: fixture.storage.scratch().join("other"),
                storage_backend: StorageChoice::Named(StorageKind::LocalDisk),
                container_runtime: RuntimeChoice::Named(RuntimeKind::None),
                object_store: Some(store.clone()),
                ..HostConfig::default()
            });
            let other = other.await.unwrap();
            let base = fixture.storage.scratch().join("base");
            small_base(&base);
            other
                .import_base(
                    &"small".parse().unwrap(),
                    &ImportSource::Directory(base),
                    |_| {},
                )
                .await
                .unwrap();
            let id = other.create_session(spec("s")).await.unwrap().id;
            fixture.session("s").await;
            fixture.write(&id, "f", "the first").await;
            hibernate(fixture, &id).await;
            other.hibernate_session(&id).await.unwrap();
            assert_eq!(fs::read_dir(&store).unwrap().count(), 2);
            other.wake_session(&id).await.unwrap();
            other.destroy_session(&id).await.unwrap();
            other.shutdown().await.unwrap();
            wake(fixture, &id).await;
            assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("the first"));
        })
    });
}

#[test]
fn session_hibernates_into_a_bucket() {
    // Keys come from the environment, and an environment is given when a program starts.
    if std::env::var_os("AWS_SECRET_ACCESS_KEY").is_none() {
        let again = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "object_store::session_hibernates_into_a_bucket",
                "--nocapture",
            ])
            .envs([
                ("AWS_ACCESS_KEY_ID", "test-key"),
                ("AWS_SECRET_ACCESS_KEY", "test-secret"),
            ])
            .output()
            .unwrap();
        assert!(
            again.status.success(),
            "{}",
            String::from_utf8_lossy(&again.stderr)
        );
        assert!(
            String::from_utf8_lossy(&again.stdout).contains("1 passed"),
            "the test ran with keys"
        );
        return;
    }
    on_one_host(|fixture| {
        Box::pin(async {
            let server = MotoS3::start();
            fixture.config.object_store = Some(server.location());
            fixture.restart().await;
            let id = fixture.session("s").await;
            fixture.write(&id, "f", "content").await;
            fixture.snapshot(&id, "one").await;
            hibernate(fixture, &id).await;
            assert!(
                server.keys().iter().all(|key| key.starts_with("s.")) && server.keys().len() == 5
            );
            fixture.restart().await;
            wake(fixture, &id).await;
            assert_eq!(fixture.read(&id, "f").await.as_deref(), Some("content"));
            assert_eq!(server.keys(), Vec::<String>::new());
            hibernate(fixture, &id).await;
            fixture.host.destroy_session(&id).await.unwrap();
            assert_eq!(server.keys(), Vec::<String>::new());
            assert_eq!(server.open_uploads(), 0);
        })
    });
}

#[test]
fn pack_of_another_session_is_refused_on_wake() {
    on_one_host(|fixture| {
        Box::pin(async {
            let (one, other) = (fixture.session("one").await, fixture.session("two").await);
            hibernate(fixture, &one).await;
            hibernate(fixture, &other).await;
            let directory = packs_directory(fixture);
            let pack_of = |id: &str| {
                fs::read_dir(&directory)
                    .unwrap()
                    .map(|entry| entry.unwrap().path())
                    .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(id))
                    .unwrap()
            };
            let (first, second) = (pack_of("one."), pack_of("two."));
            let aside = directory.join("aside");
            let swap = || {
                fs::rename(&first, &aside).unwrap();
                fs::rename(&second, &first).unwrap();
                fs::rename(&aside, &second).unwrap();
            };
            swap();
            let error = fixture.host.wake_session(&one).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidState);
            assert!(
                error.chain().contains("belongs to session `two`"),
                "{}",
                error.chain()
            );
            assert_eq!(state(fixture, &one).await, SessionState::Hibernated);
            swap();
            wake(fixture, &one).await;
            wake(fixture, &other).await;
            packs_are_gone(fixture).await;
        })
    });
}
