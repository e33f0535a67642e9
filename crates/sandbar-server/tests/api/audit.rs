//! The audit log over the wire.

use sandbar_core::{AuditOrder, AuditQuery, AuditVerdict, ErrorCode, PageRequest, SessionId};
use serde_json::json;

use crate::world::{Ended, PROTOCOLS, World, shell};

#[test]
fn audit_log_is_paged_and_verifiable() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let id = &world.session(&client).await.id;
            Ended::of(client.exec(id, shell("true")).await.unwrap()).await;
            client.turn_complete(id).await.unwrap();
            client.destroy_session(id).await.unwrap();

            let page = |order, size, token| AuditQuery {
                order,
                after: None,
                page: PageRequest { size, token },
            };
            let all = client.audit(id, &AuditQuery::default()).await.unwrap();
            assert_eq!(all.next_token, None);
            let what: Vec<&str> = all.items.iter().map(|entry| entry.what.as_str()).collect();
            for expected in ["create_session", "exec", "turn_complete", "destroy_session"] {
                assert!(what.contains(&expected), "{expected} is not in {what:?}");
            }
            let made = &all.items[0];
            assert!(
                made.who.as_str().starts_with("token:") && made.outcome == "ok",
                "{made:?}"
            );

            let mut backwards = Vec::new();
            let mut token = None;
            loop {
                let next = client
                    .audit(id, &page(AuditOrder::NewestFirst, 1, token))
                    .await
                    .unwrap();
                assert_eq!(next.items.len(), 1);
                backwards.extend(next.items);
                token = next.next_token;
                if token.is_none() {
                    break;
                }
            }
            backwards.reverse();
            assert_eq!(backwards, all.items);
            let since = AuditQuery {
                after: Some(made.number),
                ..AuditQuery::default()
            };
            assert_eq!(
                client.audit(id, &since).await.unwrap().items,
                all.items[1..]
            );

            let AuditVerdict::Intact { entries, head } = client.verify_audit(id).await.unwrap()
            else {
                panic!("audit entry of the change is missing")
            };
            assert_eq!(
                (entries, head),
                (
                    all.items.len() as u64,
                    all.items.last().map(|last| last.chain.clone())
                )
            );
        }
        let client = world.client(PROTOCOLS[0]).await;
        let missing = SessionId::new("missing").unwrap();
        assert_eq!(
            client.verify_audit(&missing).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        let unknown = world.call("Audit", &json!({"sessionId": "missing"})).await;
        assert_eq!(unknown.detail()["code"], "SessionNotFound");
    });
}
