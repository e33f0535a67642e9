//! The implementations without root.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use sandbar_core::{ErrorCode, SessionFilter};
use sandbar_environment::{
    EnvironmentError, EnvironmentProvider as _, EnvironmentState, ExecutionEnvironment, Feature,
    local::{LocalConfig, LocalIsolation, LocalProvider},
    native::NativeProvider,
};
use sandbar_host::{Host, HostConfig};
use sandbar_testing::tree::scratch;
use serde_json::json;

use crate::world::{call, config, done, read, request, serve_host, tokio, write};

const USER: u32 = 12345;

/// Runs this test again as an ordinary user, in a directory of that user's. Copies of the programs
/// are needed because an ordinary user cannot reach where they were built.
fn again_as_user(test: &str) {
    let place = scratch();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    let own = std::env::current_exe().unwrap();
    let stand_in = own
        .ancestors()
        .map(|place| place.join("sandbar-box"))
        .find(|path| path.is_file())
        .unwrap();
    for program in [&own, &stand_in] {
        let copy = place.path().join(program.file_name().unwrap());
        fs::copy(program, &copy).unwrap();
        open(&copy);
    }
    let home = place.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
    open(place.path());
    let output = Command::new(place.path().join(own.file_name().unwrap()))
        .args(["--exact", &format!("ordinary_user::{test}"), "--nocapture"])
        .current_dir(&home)
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "the test ran as the user: {said}"
    );
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Checks that tools on files, streams and commands resolve paths alike.
async fn assert_paths_agree(environment: &dyn ExecutionEnvironment, directory: &Path) {
    write(environment, "sub/a.txt", "hello").await.unwrap_err();
    done(
        environment,
        "write_file",
        json!({"path": "sub/a.txt", "content": "hello"}),
    )
    .await;
    assert_eq!(
        fs::read_to_string(directory.join("sub/a.txt")).unwrap(),
        "hello"
    );
    assert_eq!(
        done(environment, "bash", json!({"cmd": "cat sub/a.txt"})).await,
        "hello"
    );
    for cwd in [
        "sub",
        "/workspace/sub",
        directory.join("sub").to_str().unwrap(),
    ] {
        assert_eq!(
            done(environment, "bash", json!({"cmd": "cat a.txt", "cwd": cwd})).await,
            "hello",
            "{cwd}"
        );
    }
    for path in [
        "sub/a.txt",
        "/workspace/sub/a.txt",
        directory.join("sub/a.txt").to_str().unwrap(),
    ] {
        assert_eq!(
            read(environment, path).await.as_deref(),
            Some("hello"),
            "{path}"
        );
    }
}

#[test]
fn ordinary_user_works_without_a_box_and_knows_it() {
    if is_root() {
        return again_as_user("ordinary_user_works_without_a_box_and_knows_it");
    }
    let directory = std::env::current_dir().unwrap().join("project");
    fs::create_dir(&directory).unwrap();
    tokio().block_on(async {
        let boxed = LocalConfig::new(&directory).with_isolation(LocalIsolation::Boxed);
        let error = LocalProvider::open(boxed).await.unwrap_err();
        assert_eq!(error.cause().unwrap().code(), ErrorCode::PermissionDenied);
        let provider = LocalProvider::open(LocalConfig::new(&directory))
            .await
            .unwrap();
        let environment = provider.create(config("mine")).await.unwrap();
        let isolation = &environment.capabilities().isolation;
        assert!(
            isolation.starts_with("none: commands run on the host's own files"),
            "{isolation}"
        );
        assert_paths_agree(&*environment, &directory).await;
        assert_eq!(
            done(&*environment, "grep", json!({"pattern": "hel+o"})).await,
            "sub/a.txt:1:hello\n"
        );
        assert_eq!(
            done(
                &*environment,
                "bash",
                json!({"cmd": "git init -q . && echo $GREETING"})
            )
            .await,
            "good morning\n"
        );
        assert!(
            done(&*environment, "git_status", json!({}))
                .await
                .contains("sub/")
        );
        let persistent = request("bash", json!({"cmd": "true", "shell": "persistent"}));
        let error = call(&*environment, persistent).await.unwrap_err();
        assert_eq!(error.cause().unwrap().field(), Some("shell"));
        if !environment.capabilities().has(Feature::Pause) {
            let refused = environment.pause().await;
            assert!(
                matches!(
                    refused,
                    Err(EnvironmentError::CapabilityNotSupported { .. })
                ),
                "{refused:?}"
            );
        }
        environment.destroy().await.unwrap();
        assert_eq!(
            environment.state().await.unwrap(),
            EnvironmentState::Destroyed
        );
        assert_eq!(
            fs::read_dir(std::env::current_dir().unwrap())
                .unwrap()
                .count(),
            1
        );
    });
}

#[test]
fn feature_missing_on_the_host_prevents_creation() {
    if is_root() {
        return again_as_user("feature_missing_on_the_host_prevents_creation");
    }
    let config_of_host = HostConfig {
        data_dir: std::env::current_dir().unwrap().join("data"),
        storage_backend: "local-disk".parse().unwrap(),
        container_runtime: "none".parse().unwrap(),
        ..HostConfig::default()
    };
    tokio().block_on(async {
        let host = Host::start(config_of_host).await.unwrap();
        serve_host(host, async |native| {
            let client = native.client().await;
            let provider = NativeProvider::new(client.clone());
            let capabilities = provider.capabilities().await.unwrap();
            // Without root there are no cgroups, and without them no freezer.
            assert!(!capabilities.has(Feature::Pause));
            match provider
                .create(config("demanding").require([Feature::Snapshots, Feature::Pause]))
                .await
            {
                Err(EnvironmentError::CapabilityNotSupported {
                    feature: Feature::Pause,
                    reason,
                }) => {
                    assert_eq!(capabilities.pause.reason(), Some(reason.as_str()));
                }
                other => panic!("{other:?}"),
            }
            assert!(
                client
                    .all_sessions(&SessionFilter::default())
                    .await
                    .unwrap()
                    .is_empty()
            );
        })
        .await;
    });
}
