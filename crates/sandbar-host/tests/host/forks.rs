use std::pin::Pin;

use sandbar_core::{ErrorCode, ForkRequest, PageRequest, SessionFilter};

use crate::fixture::{HostFixture, snap};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) fn forks_share_earlier_files_and_not_later_ones(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let source = fixture.session("source").await;
        fixture.write(&source, "f", "then").await;
        fixture.snapshot(&source, "s").await;
        fixture.write(&source, "f", "now").await;
        let from_snapshot = ForkRequest {
            from: Some(snap("s")),
            count: 3,
            ..ForkRequest::default()
        };
        let forks = fixture
            .host
            .fork_session(&source, from_snapshot)
            .await
            .unwrap();
        assert_eq!(forks.len(), 3);
        for (number, fork) in forks.iter().enumerate() {
            assert_eq!(fork.parent, Some((source.clone(), Some(snap("s")))));
            assert_eq!(fixture.read(&fork.id, "f").await.as_deref(), Some("then"));
            fixture.write(&fork.id, "f", &number.to_string()).await;
        }
        for (number, fork) in forks.iter().enumerate() {
            assert_eq!(fixture.read(&fork.id, "f").await, Some(number.to_string()));
        }
        assert_eq!(fixture.read(&source, "f").await.as_deref(), Some("now"));
    })
}

pub(crate) fn fork_to_an_existing_id_creates_nothing(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let source = fixture.session("source").await;
        let ids = vec!["fresh".parse().unwrap(), source.clone()];
        let request = ForkRequest {
            count: 2,
            ids,
            ..ForkRequest::default()
        };
        let error = fixture
            .host
            .fork_session(&source, request)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionExists);
        for (request, field) in [
            (
                ForkRequest {
                    count: 0,
                    ..ForkRequest::default()
                },
                "count",
            ),
            (
                ForkRequest {
                    count: 5000,
                    ..ForkRequest::default()
                },
                "count",
            ),
            (
                ForkRequest {
                    count: 2,
                    ids: vec!["one".parse().unwrap()],
                    ..ForkRequest::default()
                },
                "ids",
            ),
        ] {
            assert_eq!(
                fixture
                    .host
                    .fork_session(&source, request)
                    .await
                    .unwrap_err()
                    .field(),
                Some(field)
            );
        }
        let listed = fixture
            .host
            .list_sessions(&SessionFilter::default(), &PageRequest::default())
            .await
            .unwrap();
        assert_eq!(listed.items.len(), 1);
        fixture.session("fresh").await;
    })
}

pub(crate) fn fork_survives_its_source(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let source = fixture.session("source").await;
        fixture.write(&source, "f", "kept").await;
        let fork = fixture
            .host
            .fork_session(&source, ForkRequest::default())
            .await
            .unwrap()
            .remove(0);
        fixture.host.destroy_session(&source).await.unwrap();
        fixture.restart().await;
        assert_eq!(fixture.read(&fork.id, "f").await.as_deref(), Some("kept"));
    })
}
