//! Notes on sessions.

use std::pin::Pin;

use sandbar_core::{ErrorCode, ForkRequest};

use crate::fixture::HostFixture;

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) fn note_is_stored_and_deleted_with_its_session(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let (one, other) = (fixture.session("one").await, fixture.session("other").await);
        let text = "y".repeat(64 << 10);
        let host = &fixture.host;
        host.put_note(&one, "door", "first").await.unwrap();
        host.put_note(&one, "door", &text).await.unwrap();
        host.put_note(&one, "window", "w").await.unwrap();
        host.put_note(&other, "door", "").await.unwrap();
        let fork = host
            .fork_session(&one, ForkRequest::default())
            .await
            .unwrap()
            .remove(0)
            .id;
        assert_eq!(host.note(&fork, "door").await.unwrap(), None);
        fixture.restart().await;
        let host = &fixture.host;
        assert_eq!(
            host.note(&one, "door").await.unwrap().as_deref(),
            Some(text.as_str())
        );
        let both = [(one.clone(), text), (other.clone(), String::new())];
        assert_eq!(host.notes("door").await.unwrap(), both);
        host.remove_note(&one, "window").await.unwrap();
        host.remove_note(&one, "window").await.unwrap();
        assert_eq!(host.note(&one, "window").await.unwrap(), None);
        host.destroy_session(&one).await.unwrap();
        assert_eq!(host.notes("door").await.unwrap(), both[1..]);
        let again = fixture.session("one").await;
        assert_eq!(fixture.host.note(&again, "door").await.unwrap(), None);
    })
}

pub(crate) fn invalid_note_is_refused(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        let long = "x".repeat((64 << 10) + 1);
        for (key, text, field) in [
            ("", "x", "key"),
            (&long[..129], "x", "key"),
            ("k", &long, "note"),
            ("k", "\0", "note"),
        ] {
            let error = fixture.host.put_note(&id, key, text).await.unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some(field))
            );
            assert!(error.hint().is_some());
        }
        assert_eq!(fixture.host.note(&id, "k").await.unwrap(), None);
        let nowhere = "nowhere".parse().unwrap();
        for outcome in [
            fixture.host.put_note(&nowhere, "k", "x").await.err(),
            fixture.host.note(&nowhere, "k").await.err(),
            fixture.host.remove_note(&nowhere, "k").await.err(),
        ] {
            assert_eq!(outcome.unwrap().code(), ErrorCode::SessionNotFound);
        }
    })
}
