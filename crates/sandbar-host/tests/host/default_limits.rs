//! Limits of sessions that request none.

use std::{future::Future, pin::Pin};

use sandbar_core::{BaseName, ByteCount, ErrorCode, Resources, RuntimeKind, SessionId};
use sandbar_host::HostConfig;

use crate::fixture::{HostFixture, spec};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Returns the total memory in KiB that a session sees.
async fn memory_seen(fixture: &HostFixture, id: &SessionId) -> u64 {
    let (line, _) = fixture.shell(id, "grep ^MemTotal /proc/meminfo").await;
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn memory_of_machine() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().next().unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(crate) fn session_without_limits_has_those_of_the_host(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let quotas = fixture.host.capabilities().quota;
        let limits = fixture.host.default_limits().clone();
        let half = limits.memory.unwrap();
        assert!(half.get() <= (memory_of_machine() * 1024 / 2).max(512 << 20));
        assert_eq!(limits.resources.pids, Some(1024));
        assert_eq!(limits.missing.is_empty(), quotas.is_yes(), "{limits:?}");
        let id = fixture.machine("s").await;
        let info = fixture.host.get_session(&id).await.unwrap();
        assert_eq!(info.quota, quotas.is_yes().then_some(ByteCount::gib(10)));
        if fixture.config.container_runtime
            == sandbar_host::RuntimeChoice::Named(RuntimeKind::Native)
        {
            assert_eq!(memory_seen(fixture, &id).await, half.get() / 1024);
        }
        // Keys that are not set keep their limit.
        let config = HostConfig {
            default_resources: Resources {
                memory: Some(ByteCount::mib(700)),
                ..Resources::default()
            },
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let limits = fixture.host.default_limits();
        assert_eq!(
            (limits.memory, limits.resources.pids),
            (Some(ByteCount::mib(700)), Some(1024))
        );
        // Zero turns one off.
        let config = HostConfig {
            default_resources: Resources {
                memory: Some(ByteCount(0)),
                ..Resources::default()
            },
            default_session_quota: Some(ByteCount(0)),
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        assert!(!fixture.host.default_limits().missing.is_empty());
        let unlimited = fixture.machine("unlimited").await;
        assert_eq!(memory_seen(fixture, &unlimited).await, memory_of_machine());
        let info = fixture.host.get_session(&unlimited).await.unwrap();
        assert_eq!(info.quota, None);
        // A session keeps the quota it was created with.
        let info = fixture.host.get_session(&id).await.unwrap();
        assert_eq!(info.quota.is_some(), quotas.is_yes());
    })
}

pub(crate) fn default_quota_stops_a_session_at_its_share(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            default_session_quota: Some(ByteCount::mib(48)),
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let mut filler = spec("filler");
        filler.base = BaseName::new("host").unwrap();
        if !fixture.host.capabilities().quota.is_yes() {
            // A quota that the operator has set is not ignored.
            let error = fixture.host.create_session(filler).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("quota"))
            );
            return;
        }
        let filler = fixture.make(filler).await.id;
        let (_, code) = fixture
            .shell(&filler, "head -c 200M /dev/zero 2>/dev/null > full && sync full 2>/dev/null && exit 7; true")
            .await;
        assert_eq!(code, Some(0), "the quota does not hold");
        let neighbour = fixture.machine("neighbour").await;
        let (said, _) = fixture
            .shell(&neighbour, "head -c 1M /dev/zero > fine; wc -c < fine")
            .await;
        assert_eq!(said, "1048576\n");
    })
}
