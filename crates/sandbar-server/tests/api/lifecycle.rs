//! Lifecycle of a session over every wire form.

use std::path::Path;

use http::StatusCode;
use sandbar_core::{
    BaseName, ChangeKind, ErrorCode, ForkRequest, LaterSnapshots, Quiesce, SessionFilter,
    SessionId, SessionSpec, SessionState, SnapshotName, WriteOptions,
};
use serde_json::json;

use crate::world::{Ended, PROTOCOLS, World, shell};

#[test]
fn session_lifecycle_works_over_plain_json() {
    World::run(async |world| {
        let made = world
            .call(
                "CreateSession",
                &json!({"baseSnapshot": "small", "sessionId": "box", "labels": {"by": "curl"}}),
            )
            .await;
        assert_eq!(made.status, StatusCode::OK, "{:?}", made.body);
        assert_eq!(made.json()["session"]["state"], "SESSION_STATE_ACTIVE");
        assert_eq!(made.json()["session"]["labels"]["by"], "curl");

        let run = async |script: &str| {
            let start = json!({"start": {"sessionId": "box", "argv": ["/bin/sh", "-c", script]}});
            world.stream("Exec", &[start]).await
        };
        let answers = run("echo one > file; cat file; exit 3").await;
        assert!(answers[0]["started"]["pid"].as_u64().unwrap() > 1);
        // Bytes are base64 in JSON.
        assert_eq!(answers[1], json!({"stdout": "b25lCg=="}));
        assert_eq!(answers[2]["exited"]["code"], 3);
        assert_eq!(answers[3], json!({}));

        let snapshot = world
            .call(
                "CreateSnapshot",
                &json!({"sessionId": "box", "name": "clean"}),
            )
            .await;
        assert_eq!(snapshot.json()["snapshot"]["kind"], "SNAPSHOT_KIND_NAMED");
        run("echo two > file; echo new > other").await;
        let changes = world
            .stream("Diff", &[json!({"sessionId": "box", "from": "clean"})])
            .await;
        let paths: Vec<_> = changes[0]["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| &change["path"])
            .collect();
        assert_eq!(paths, ["/workspace/file", "/workspace/other"]);

        let back = world
            .call(
                "RollbackSession",
                &json!({"sessionId": "box", "snapshot": "clean"}),
            )
            .await;
        assert_eq!(back.status, StatusCode::OK, "{:?}", back.body);
        assert_eq!(run("cat file").await[1], json!({"stdout": "b25lCg=="}));

        assert_eq!(
            world
                .call("DestroySession", &json!({"sessionId": "box"}))
                .await
                .status,
            StatusCode::OK
        );
        let gone = world.call("GetSession", &json!({"sessionId": "box"})).await;
        assert_eq!(gone.status, StatusCode::NOT_FOUND);
        assert_eq!(gone.json()["code"], "not_found");
        assert_eq!(
            (&gone.detail()["code"], &gone.detail()["sessionId"]),
            (&json!("SessionNotFound"), &json!("box"))
        );
    });
}

#[test]
fn session_lifecycle_works_over_every_protocol() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let mut spec = SessionSpec::new(BaseName::new("small").unwrap());
            spec.labels
                .insert("protocol".into(), format!("{protocol:?}"));
            let (labels, state) = (spec.labels.clone(), Some(SessionState::Active));
            let filter = SessionFilter {
                labels,
                state,
                ..SessionFilter::default()
            };
            let session = client.create_session(spec).await.unwrap();
            let id = &session.id;
            assert_eq!(client.get_session(id).await.unwrap().id, *id);
            assert_eq!(client.all_sessions(&filter).await.unwrap().len(), 1);

            let file = Path::new("file");
            client
                .write_file(id, file, WriteOptions::default(), &b"one"[..])
                .await
                .unwrap();
            let clean = SnapshotName::new("clean").unwrap();
            assert_eq!(
                client
                    .create_snapshot(id, Some(&clean), Quiesce::WhereNeeded)
                    .await
                    .unwrap()
                    .name,
                clean
            );
            let ended = Ended::of(
                client
                    .exec(id, shell("cat file; echo two > file"))
                    .await
                    .unwrap(),
            )
            .await;
            assert_eq!((ended.text(), ended.status.code), ("one", Some(0)));

            let changes = client.diff(id, &clean, None).await.unwrap();
            assert_eq!(changes.len(), 1, "{changes:?}");
            assert_eq!(
                (changes[0].path.as_path(), changes[0].kind),
                (Path::new("/workspace/file"), ChangeKind::Modified)
            );
            assert_eq!(
                client.turn_complete(id).await.unwrap().name.as_str(),
                "turn-0001"
            );
            assert_eq!(client.list_snapshots(id).await.unwrap().len(), 2);

            let request = ForkRequest {
                from: Some(clean.clone()),
                count: 2,
                ..ForkRequest::default()
            };
            let forks = client.fork_session(id, request).await.unwrap();
            assert_eq!(forks.len(), 2);
            client
                .rollback_session(id, &clean, LaterSnapshots::Drop)
                .await
                .unwrap();
            for id in forks.iter().map(|fork| &fork.id).chain([id]) {
                let mut content = Vec::new();
                let stat = client.read_file(id, file, &mut content).await.unwrap();
                assert_eq!((content.as_slice(), stat.size.get()), (&b"one"[..], 3));
                client.destroy_session(id).await.unwrap();
                assert_eq!(
                    client.get_session(id).await.unwrap_err().code(),
                    ErrorCode::SessionNotFound
                );
            }
        }
        let client = world.client(PROTOCOLS[0]).await;
        assert_eq!(
            client
                .all_sessions(&SessionFilter::default())
                .await
                .unwrap(),
            []
        );
    });
}

#[test]
fn host_reports_health_capabilities_and_bases() {
    World::run(async |world| {
        let client = world.client(PROTOCOLS[0]).await;
        let health = client.health().await.unwrap();
        assert!(health.space_total.get() > 0);
        assert_eq!(
            client.capabilities().await.unwrap(),
            world.host.capabilities()
        );
        let bases = client.list_bases().await.unwrap();
        let small = bases
            .iter()
            .find(|base| base.name.as_str() == "small")
            .unwrap();
        assert_eq!(small.source, "directory");
        client.delete_base(&small.name).await.unwrap();
        let spec = SessionSpec::new(small.name.clone());
        assert_eq!(
            client.create_session(spec).await.unwrap_err().code(),
            ErrorCode::BaseNotFound
        );
        // A call without side effects is also a GET.
        let path = "/sandbar.v1.SandboxService/GetSession?encoding=json&message=%7B%22sessionId%22%3A%22no%22%7D&connect=v1";
        let mut request = world.request("GetSession", "application/json", "");
        *request.method_mut() = http::Method::GET;
        *request.uri_mut() = path.parse().unwrap();
        request.headers_mut().remove("content-type");
        assert_eq!(
            crate::raw::send(world.address, request).await.status,
            StatusCode::NOT_FOUND
        );
        assert!(
            client
                .get_session(&SessionId::new("no").unwrap())
                .await
                .is_err()
        );
    });
}
