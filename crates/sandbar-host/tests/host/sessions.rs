use std::{pin::Pin, time::Duration};

use sandbar_core::{ErrorCode, PageRequest, SessionFilter, SessionState, SessionUsage};
use sandbar_host::HostConfig;

use crate::fixture::{HostFixture, spec};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) fn session_is_created_listed_and_destroyed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let mut wanted = spec("s");
        wanted.labels.insert("task".into(), "42".into());
        let made = fixture.make(wanted).await;
        assert_eq!((made.id.as_str(), made.state), ("s", SessionState::Active));
        // Some file systems count a moment later.
        let made = fixture.host.get_session(&made.id).await.unwrap();
        assert_eq!(fixture.host.get_session(&made.id).await.unwrap(), made);
        let listed = fixture
            .host
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await
            .unwrap();
        assert_eq!(
            (listed.items, listed.next_token),
            (vec![made.clone()], None)
        );
        fixture.host.destroy_session(&made.id).await.unwrap();
        assert_eq!(
            fixture.host.get_session(&made.id).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        let again = fixture.host.destroy_session(&made.id).await.unwrap_err();
        assert_eq!(again.code(), ErrorCode::SessionNotFound);
    })
}

pub(crate) fn host_base_is_imported_on_first_use(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let names = |bases: Vec<sandbar_core::BaseInfo>| {
            bases
                .into_iter()
                .map(|base| base.name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(fixture.host.list_bases().await.unwrap()), ["small"]);
        let (first, second) = tokio::join!(fixture.machine("a"), fixture.machine("b"));
        assert_ne!(first, second);
        assert_eq!(
            names(fixture.host.list_bases().await.unwrap()),
            ["host", "small"]
        );
    })
}

pub(crate) fn id_is_unique_and_free_after_destroy(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.write(&id, "mine", "x").await;
        let error = fixture.host.create_session(spec("s")).await.unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::SessionExists, Some("session_id"))
        );
        assert_eq!(fixture.read(&id, "mine").await.as_deref(), Some("x"));
        fixture.host.destroy_session(&id).await.unwrap();
        let id = fixture.session("s").await;
        assert_eq!(fixture.read(&id, "mine").await, None);
    })
}

pub(crate) fn listing_is_filtered_and_paged(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        for number in 0..5 {
            let mut wanted = spec(&format!("s{number}"));
            wanted
                .labels
                .insert("parity".into(), (number % 2).to_string());
            fixture.make(wanted).await;
        }
        let even = SessionFilter {
            labels: [("parity".into(), "0".into())].into(),
            ..SessionFilter::default()
        };
        let mut page = PageRequest {
            size: 2,
            token: None,
        };
        let mut seen = Vec::new();
        loop {
            let listed = fixture.host.list_sessions(&even, &page).await.unwrap();
            assert!(listed.items.len() <= 2);
            seen.extend(
                listed
                    .items
                    .into_iter()
                    .map(|session| session.id.to_string()),
            );
            match listed.next_token {
                Some(token) => page.token = Some(token),
                None => break,
            }
        }
        assert_eq!(seen, ["s0", "s2", "s4"]);
        let paused = SessionFilter {
            state: Some(SessionState::Paused),
            ..SessionFilter::default()
        };
        assert!(
            fixture
                .host
                .list_sessions(&paused, &PageRequest::default())
                .await
                .unwrap()
                .items
                .is_empty()
        );
        for (request, field) in [
            (
                PageRequest {
                    size: 5000,
                    token: None,
                },
                "page_size",
            ),
            (
                PageRequest {
                    size: 0,
                    token: Some("nonsense".into()),
                },
                "page_token",
            ),
        ] {
            let error = fixture
                .host
                .list_sessions(&even, &request)
                .await
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some(field))
            );
        }
    })
}

pub(crate) fn usage_is_returned_on_request(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        assert_eq!(fixture.host.get_session(&id).await.unwrap().usage, None);
        let idle = fixture
            .host
            .get_session_with_usage(&id)
            .await
            .unwrap()
            .usage;
        assert_eq!(idle, Some(SessionUsage::NOTHING));
        fixture
            .shell(
                &id,
                "sleep 600 >/dev/null 2>&1 & i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done",
            )
            .await;
        let filter = SessionFilter {
            with_usage: true,
            ..SessionFilter::default()
        };
        let listed = fixture
            .host
            .list_sessions(&filter, &PageRequest::default())
            .await
            .unwrap();
        let usage = listed.items[0].usage.unwrap();
        assert!(
            usage.cpu_time.is_some_and(|time| !time.is_zero()),
            "{usage:?}"
        );
        assert!(
            usage.memory.is_some_and(|memory| memory.get() > 0),
            "{usage:?}"
        );
        assert_eq!(usage.processes, Some(1), "{usage:?}");
        let listed = fixture
            .host
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await
            .unwrap();
        assert_eq!(listed.items[0].usage, None);
    })
}

pub(crate) fn at_most_max_sessions_are_created(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        fixture
            .restart_with(HostConfig {
                max_sessions: 2,
                ..fixture.config.clone()
            })
            .await;
        let first = fixture.session("a").await;
        fixture.session("b").await;
        let error = fixture.host.create_session(spec("c")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::MaxSessionsReached);
        let forks = fixture
            .host
            .fork_session(&first, sandbar_core::ForkRequest::default())
            .await
            .unwrap_err();
        assert_eq!(forks.code(), ErrorCode::MaxSessionsReached);
        fixture.host.destroy_session(&first).await.unwrap();
        fixture.session("c").await;
    })
}

pub(crate) fn concurrent_destroys_of_one_session_succeed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        let outcomes = tokio::join!(
            fixture.host.destroy_session(&id),
            fixture.host.destroy_session(&id)
        );
        for outcome in [outcomes.0, outcomes.1] {
            // One destroys it; the other joins, or comes too late and finds nothing.
            if let Err(error) = outcome {
                assert_eq!(error.code(), ErrorCode::SessionNotFound);
            }
        }
        assert_eq!(
            fixture.host.get_session(&id).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        fixture.session("s").await;
    })
}

pub(crate) fn expired_session_is_destroyed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let often = HostConfig {
            health_check_interval: Duration::from_millis(20),
            ..fixture.config.clone()
        };
        fixture.restart_with(often).await;
        let mut short = spec("short");
        short.time_to_live = Some(Duration::from_millis(1));
        let short = fixture.make(short).await;
        assert!(short.expires.is_some());
        let long = fixture.session("long").await;
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while fixture.host.get_session(&short.id).await.is_ok() {
            assert!(
                std::time::Instant::now() < deadline,
                "it was never destroyed"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fixture.host.get_session(&long).await.unwrap();
    })
}
