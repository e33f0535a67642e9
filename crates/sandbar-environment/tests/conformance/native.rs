//! Tests of the native implementation alone.

use std::{path::Path, time::Duration};

use jiff::SignedDuration;
use sandbar_core::ErrorCode;
use sandbar_environment::{
    EnvironmentError, EnvironmentProvider as _, EnvironmentState, SessionId, native::NativeProvider,
};
use sandbar_server::{LocalIdentity, TlsConfig, TlsIdentity};
use sandbar_x509::{Authority, SubjectName};
use serde_json::json;

use crate::world::{
    call, config, done, eventually, not_active, read, request, run_native, run_native_with, tokio,
};

#[test]
fn host_that_does_not_answer_is_unavailable() {
    // Bound and dropped: nothing listens there now.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    tokio().block_on(async {
        let error = NativeProvider::connect(&format!("http://127.0.0.1:{port}"), None)
            .await
            .unwrap_err();
        assert!(
            matches!(error, EnvironmentError::ProviderUnavailable(_)),
            "{error:?}"
        );
        assert_eq!(error.hint(), Some("start one with `sandbar up`"));
    });
}

#[test]
fn stopped_host_is_unavailable_and_wrong_token_refused() {
    run_native(
        |_| (),
        async |native| {
            let stranger = NativeProvider::connect(native.url(), Some("wrong"))
                .await
                .unwrap();
            let error = stranger.capabilities().await.unwrap_err();
            assert_eq!(error.cause().unwrap().code(), ErrorCode::Unauthenticated);
            let provider = NativeProvider::new(native.client().await);
            let environment = provider.create(config("left")).await.unwrap();
            native.stop();
            let gone = |error: &EnvironmentError| {
                matches!(error, EnvironmentError::ProviderUnavailable(_))
            };
            eventually("the host is gone", async || {
                environment.state().await.is_err_and(|error| gone(&error))
            })
            .await;
            let error = call(&*environment, request("bash", json!({"cmd": "true"})))
                .await
                .unwrap_err();
            assert!(gone(&error), "{error:?}");
            assert!(gone(&environment.destroy().await.unwrap_err()));
            assert!(gone(
                &provider
                    .attach(&SessionId::new("left").unwrap())
                    .await
                    .unwrap_err()
            ));
        },
    );
}

#[test]
fn tls_host_is_trusted_by_its_ca_file_only() {
    let authority = Authority::new("own", SignedDuration::from_hours(24)).unwrap();
    let directory = sandbar_testing::tree::scratch();
    let write = |name: &str, authority: &Authority| {
        let path = directory.path().join(name);
        std::fs::write(&path, authority.certificate_pem()).unwrap();
        path
    };
    let own = write("own.pem", &authority);
    let other = write(
        "other.pem",
        &Authority::new("other", SignedDuration::from_hours(24)).unwrap(),
    );
    let names = vec![SubjectName::Address([127, 0, 0, 1].into())];
    let local = LocalIdentity {
        authority,
        names,
        ingress_domain: "localhost".to_owned(),
    };
    let tls = TlsConfig {
        identity: TlsIdentity::Local(local),
        client_ca: None,
    };
    run_native_with(
        |_| (),
        Some(tls),
        async |native| {
            let connect = async |ca_file: &Path| {
                let provider =
                    NativeProvider::connect_trusting(native.url(), Some(native.token()), ca_file)
                        .await?;
                provider.capabilities().await
            };
            connect(&own).await.unwrap();
            for bad in [&other, &directory.path().join("missing.pem")] {
                assert!(connect(bad).await.is_err(), "{bad:?}");
            }
            assert!(
                NativeProvider::connect(native.url(), Some(native.token()))
                    .await
                    .is_err()
            );
        },
    );
}

#[test]
fn full_host_refuses_a_session() {
    run_native(
        |config| config.max_sessions = 1,
        async |native| {
            let provider = NativeProvider::new(native.client().await);
            let first = provider.create(config("first")).await.unwrap();
            let second = provider.create(config("second")).await;
            assert!(
                matches!(second, Err(EnvironmentError::SessionLimitReached(_))),
                "{second:?}"
            );
            let copy = first.fork(sandbar_environment::ForkConfig::default()).await;
            assert!(
                matches!(copy, Err(EnvironmentError::SessionLimitReached(_))),
                "{copy:?}"
            );
            first.destroy().await.unwrap();
        },
    );
}

#[test]
fn hibernated_session_is_paused_until_resume() {
    run_native(
        |_| (),
        async |native| {
            let client = native.client().await;
            let environment = NativeProvider::new(client.clone())
                .create(config("sleeper"))
                .await
                .unwrap();
            done(&*environment, "bash", json!({"cmd": "echo hello > note"})).await;
            client
                .hibernate_session(environment.session_id())
                .await
                .unwrap();
            let paused = &[EnvironmentState::Paused];
            assert_eq!(environment.state().await.unwrap(), EnvironmentState::Paused);
            not_active(
                call(&*environment, request("bash", json!({"cmd": "true"}))).await,
                paused,
            );
            environment.resume().await.unwrap();
            assert_eq!(
                read(&*environment, "note").await.as_deref(),
                Some("hello\n")
            );
            environment.destroy().await.unwrap();
        },
    );
}

#[test]
fn options_and_labels_reach_the_host() {
    run_native(
        |_| (),
        async |native| {
            let client = native.client().await;
            let provider = NativeProvider::new(client.clone());
            let mut wishes = config("picky");
            wishes.labels.insert("team".into(), "red".into());
            wishes.options.idle_timeout = Some(Duration::from_hours(1));
            let environment = provider.create(wishes).await.unwrap();
            let session = client.get_session(environment.session_id()).await.unwrap();
            assert_eq!(session.labels.get("team").map(String::as_str), Some("red"));
            assert_eq!(session.idle_timeout, Some(Duration::from_hours(1)));
            let mut unknown = config("other");
            unknown.base_image = "nowhere".into();
            let error = provider.create(unknown).await.unwrap_err();
            assert_eq!(error.cause().unwrap().code(), ErrorCode::BaseNotFound);
            environment.destroy().await.unwrap();
        },
    );
}
