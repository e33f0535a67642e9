//! Many sessions, and concurrent callers on one session.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use sandbar_core::{
    BaseName, ErrorCode, PageRequest, RuntimeKind, SessionFilter, SessionId, SessionSpec,
};
use sandbar_testing::Backend;

use crate::{
    fixture::{FaultyHost, settled, spec, with_faults},
    sweep::agreement,
    switchboard::Fault,
};

/// Calls made at once.
const AT_ONCE: usize = 8;

#[test]
fn session_destroyed_during_create_exists_or_is_gone() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        let id: SessionId = "s".parse().unwrap();
        faulty.create("warm").await;
        faulty.faults.arm(&[(("create", 0), Fault::Hang)]);
        let host = faulty.host().clone();
        let create = tokio::spawn(async move { host.create_session(spec("s")).await });
        settled(async || {
            if faulty.faults.hangs() {
                Ok(())
            } else {
                Err("it does not hang".into())
            }
        })
        .await;
        let (host, target) = (faulty.host().clone(), id.clone());
        let destroy = tokio::spawn(async move { host.destroy_session(&target).await });
        faulty.faults.release();
        create.await.unwrap().unwrap();
        match destroy.await.unwrap() {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::InvalidState, "{}", error.chain());
                faulty.shell(&id, "true").await.unwrap();
                faulty.host().destroy_session(&id).await.unwrap();
            }
        }
        assert_eq!(
            faulty.host().get_session(&id).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        faulty.faults.listen();
        agreement(faulty).await.unwrap();
        faulty.create("s").await;
    });
}

#[test]
fn concurrent_destroys_destroy_a_session_once() {
    with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
        let id = faulty.create("s").await;
        faulty.faults.arm(&[(("delete", 0), Fault::Hang)]);
        let callers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (host, id) = (faulty.host().clone(), id.clone());
                tokio::spawn(async move { host.destroy_session(&id).await })
            })
            .collect();
        settled(async || {
            if faulty.faults.hangs() {
                Ok(())
            } else {
                Err("it does not hang".into())
            }
        })
        .await;
        faulty.faults.release();
        for caller in callers {
            // A call after the destruction gets `SessionNotFound`.
            if let Err(error) = caller.await.unwrap() {
                assert_eq!(
                    error.code(),
                    ErrorCode::SessionNotFound,
                    "{}",
                    error.chain()
                );
            }
        }
        settled(async || {
            if faulty.faults.hangs() {
                Err("it hangs".into())
            } else {
                Ok(())
            }
        })
        .await;
        assert_eq!(
            faulty
                .faults
                .calls()
                .iter()
                .filter(|call| **call == "delete")
                .count(),
            1
        );
        faulty.faults.listen();
        agreement(faulty).await.unwrap();
    });
}

/// Makes sessions over the small base; ids as given, or random.
async fn make(faulty: &FaultyHost, ids: Vec<Option<SessionId>>) -> Vec<SessionId> {
    let made = ids.into_iter().map(|id| {
        let host = Arc::clone(faulty.host());
        async move {
            let mut spec = SessionSpec::new(BaseName::new("small").unwrap());
            spec.id = id;
            host.create_session(spec).await.unwrap().id
        }
    });
    stream::iter(made).buffer_unordered(AT_ONCE).collect().await
}

#[test]
fn thousand_sessions_are_created_listed_used_and_destroyed() {
    with_faults(Backend::BtrfsImage, RuntimeKind::Native, async |faulty| {
        faulty.config.health_check_interval = Duration::from_secs(30);
        faulty.restart().await;
        // Some have the base `host` and can run commands.
        let mut ids: BTreeSet<SessionId> =
            make(faulty, vec![None; 980]).await.into_iter().collect();
        for number in 0..20 {
            let id = faulty.create(&format!("runs-{number}")).await;
            faulty.shell(&id, "true").await.unwrap();
            ids.insert(id);
        }
        assert_eq!(ids.len(), 1000);
        let mut listed = BTreeSet::new();
        let mut page = PageRequest {
            size: 77,
            token: None,
        };
        loop {
            let answer = faulty
                .host()
                .list_sessions(&SessionFilter::default(), &page)
                .await
                .unwrap();
            for session in answer.items {
                assert!(listed.insert(session.id), "listed twice");
            }
            page.token = answer.next_token;
            if page.token.is_none() {
                break;
            }
        }
        assert_eq!(listed, ids);
        let destroyed = ids.iter().map(|id| faulty.host().destroy_session(id));
        stream::iter(destroyed)
            .buffer_unordered(AT_ONCE)
            .for_each(async |outcome| outcome.unwrap())
            .await;
        assert!(faulty.real().volumes().unwrap().is_empty());
        assert_eq!(faulty.host().health().await.sessions, 0);
        agreement(faulty).await.unwrap();
        faulty.real().settle().unwrap();
    });
}

#[test]
fn generated_ids_of_two_hosts_differ() {
    let mut seen = BTreeSet::new();
    for _ in 0..2 {
        with_faults(Backend::LocalDiskExt4, RuntimeKind::None, async |faulty| {
            let ids = make(faulty, vec![None; 200]).await;
            // In the order in which they were made they are not in the order of their names, nor
            // one after the other.
            assert!(!ids.is_sorted());
            let starts: BTreeSet<String> = ids
                .iter()
                .map(|id| id.as_str()[..id.as_str().len() - 3].into())
                .collect();
            assert_eq!(
                starts.len(),
                ids.len(),
                "ids that differ at their end alone"
            );
            for id in ids {
                assert!(seen.insert(id.clone()), "{id} was given twice");
            }
        });
    }
    assert_eq!(seen.len(), 400);
}
