//! Tests of the local implementation alone.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, chown, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use sandbar_core::{ByteCount, ErrorCode};
use sandbar_environment::{
    EnvironmentConfig, EnvironmentError, EnvironmentProvider,
    local::{LocalConfig, LocalIsolation, LocalProvider},
};
use sandbar_testing::{eventually, tree::scratch};
use serde_json::json;

use crate::world::{World, config, done, run_local, tokio};

const BOTH: [LocalIsolation; 2] = [LocalIsolation::Boxed, LocalIsolation::Unboxed];

#[test]
fn directory_is_the_workspace_and_keeps_its_files() {
    for isolation in BOTH {
        run_local(isolation, async |world: &World, directory: &Path| {
            fs::write(directory.join("mine"), "mine").unwrap();
            assert_eq!(
                world.bash("cat mine; echo theirs > theirs; pwd").await,
                "mine/workspace\n"
            );
            world
                .done("write_file", json!({"path": "deep/er", "content": "x"}))
                .await;
            let me = rustix::process::geteuid().as_raw();
            for made in ["theirs", "deep", "deep/er"] {
                assert_eq!(directory.join(made).metadata().unwrap().uid(), me, "{made}");
            }
            // The mounts are visible to one thread only.
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            assert!(!mounts.contains("sandbar-local-"));
            world.environment.destroy().await.unwrap();
            let mut names: Vec<_> = fs::read_dir(directory)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, ["deep", "mine", "theirs"]);
        });
    }
}

#[test]
fn box_sees_the_workspace_and_read_only_programs() {
    for isolation in BOTH {
        run_local(isolation, async |world: &World, directory: &Path| {
            let secret = directory.parent().unwrap().join("secret");
            fs::write(&secret, "secret").unwrap();
            let secret = secret.to_str().unwrap();
            assert!(
                world
                    .tool("bash", json!({"cmd": format!("cat {secret}")}))
                    .await
                    .unwrap()
                    .is_error
            );
            assert!(
                world
                    .tool("read_file", json!({"path": secret}))
                    .await
                    .unwrap()
                    .is_error
            );
            symlink(secret, directory.join("link")).unwrap();
            assert!(
                world
                    .tool("read_file", json!({"path": "link"}))
                    .await
                    .unwrap()
                    .is_error
            );
            assert!(
                world
                    .tool("read_file", json!({"path": "../../secret"}))
                    .await
                    .unwrap()
                    .is_error
            );
            for place in ["/usr/bin/sandbar-was-here", "/usr/sandbar-was-here"] {
                let answer = world
                    .tool("write_file", json!({"path": place, "content": ""}))
                    .await;
                assert!(answer.is_ok_and(|answer| answer.is_error), "{place}");
                assert!(
                    world
                        .tool("bash", json!({"cmd": format!("touch {place}")}))
                        .await
                        .unwrap()
                        .is_error,
                    "{place}"
                );
                assert!(!Path::new(place).exists());
            }
            assert_eq!(
                world
                    .bash("ls -A /root; ls /home; cut -d: -f1 /etc/passwd | sort")
                    .await,
                ".bashrc\n.profile\nuser\nnobody\nroot\nuser\n"
            );
        });
    }
}

#[test]
fn one_session_works_on_a_directory_at_a_time() {
    run_local(LocalIsolation::Unboxed, async |world: &World, _: &Path| {
        let second = world.provider.create(config("second")).await;
        assert!(
            matches!(second, Err(EnvironmentError::SessionLimitReached(_))),
            "{second:?}"
        );
        assert_eq!(
            world.environment.capabilities().concurrent_sessions,
            Some(1)
        );
        world.environment.destroy().await.unwrap();
        world
            .provider
            .create(config("second"))
            .await
            .unwrap()
            .destroy()
            .await
            .unwrap();
    });
}

#[test]
fn unsupported_options_are_refused_by_field() {
    run_local(LocalIsolation::Unboxed, async |world: &World, _: &Path| {
        world.environment.destroy().await.unwrap();
        let refused = async |field: &str, change: fn(&mut EnvironmentConfig)| {
            let mut config = config("picky");
            change(&mut config);
            let error = world.provider.create(config).await.unwrap_err();
            let cause = error.cause().unwrap();
            assert_eq!(
                (cause.code(), cause.field()),
                (ErrorCode::InvalidArgument, Some(field))
            );
            assert!(error.hint().is_some());
        };
        refused("base_image", |config| config.base_image = "ubuntu".into()).await;
        refused("base_image", |config| config.base_image = "../x".into()).await;
        refused("quota", |config| {
            config.options.quota = Some(ByteCount::mib(1));
        })
        .await;
        refused("time_to_live", |config| {
            config.options.time_to_live = Some(Duration::from_secs(1));
        })
        .await;
        refused("idle_timeout", |config| {
            config.options.idle_timeout = Some(Duration::from_secs(1));
        })
        .await;
        refused("network", |config| {
            config.options.network = Some("full".parse().unwrap());
        })
        .await;
        refused("env", |config| {
            drop(config.options.env.insert("A=B".into(), String::new()));
        })
        .await;
        refused("labels", |config| {
            drop(config.labels.insert(String::new(), String::new()));
        })
        .await;
    });
}

#[test]
fn unusable_directory_is_refused() {
    let place = scratch();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let theirs = place.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(12345), Some(12345)).unwrap();
    tokio().block_on(async {
        for bad in [
            Path::new("/"),
            &file,
            &place.path().join("missing"),
            &theirs,
        ] {
            let error = LocalProvider::open(LocalConfig::new(bad))
                .await
                .unwrap_err();
            let cause = error.cause().unwrap();
            assert_eq!(
                (cause.code(), cause.field()),
                (ErrorCode::InvalidArgument, Some("directory")),
                "{bad:?}"
            );
        }
        LocalProvider::open(LocalConfig::new(&theirs).with_isolation(LocalIsolation::Unboxed))
            .await
            .unwrap();
    });
}

#[test]
fn processes_end_with_the_last_handle_and_the_provider() {
    for isolation in BOTH {
        let place = scratch();
        tokio().block_on(async {
            let config = LocalConfig::new(place.path()).with_isolation(isolation);
            let provider: Arc<dyn EnvironmentProvider> =
                Arc::new(LocalProvider::open(config).await.unwrap());
            let environment = provider.create(crate::world::config("left")).await.unwrap();
            let hold =
                json!({"cmd": "exec 9> lock; flock 9; touch held; sleep 1000", "background": true});
            done(&*environment, "bash", hold).await;
            eventually("the lock is held", || place.path().join("held").exists());
            let lock = File::open(place.path().join("lock")).unwrap();
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap_err();
            drop(environment);
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap_err();
            drop(provider);
            eventually("the lock is free", || {
                flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            });
        });
    }
}
