//! Audit log and metrics.

use std::{pin::Pin, time::Duration};

use rusqlite::Connection;
use sandbar_core::{
    Actor, AuditEntry, AuditOrder, AuditQuery, AuditVerdict, ByteCount, ErrorCode, ExecSpec,
    ForkRequest, LaterSnapshots, MakeDirOptions, PageRequest, Quiesce, RuntimeKind, SessionId,
};
use sandbar_host::{HostConfig, acting_as};
use sandbar_testing::Backend;
use serde_json::{Value, json};

use crate::{
    fixture::{HostFixture, snap, spec},
    tools::named,
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl HostFixture {
    /// The whole log of a session, as it is now.
    pub(crate) async fn entries(&self, id: &SessionId) -> Vec<AuditEntry> {
        let page = PageRequest {
            size: PageRequest::MAX_SIZE,
            token: None,
        };
        self.host
            .audit(
                id,
                AuditQuery {
                    page,
                    ..AuditQuery::default()
                },
            )
            .await
            .unwrap()
            .items
    }

    /// The whole log of a session to which nothing happens meanwhile. It must be as it was written.
    async fn log(&self, id: &SessionId) -> Vec<AuditEntry> {
        let log = self.entries(id).await;
        let head = log.last().map(|entry| entry.chain.clone());
        let intact = AuditVerdict::Intact {
            entries: log.len() as u64,
            head,
        };
        assert_eq!(self.host.verify_audit(id).await.unwrap(), intact);
        log
    }

    /// Returns the value of a metric sample, by its name and labels; zero if it is missing.
    async fn metric(&self, sample: &str) -> f64 {
        let text = self.host.metrics_text().await;
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        found.map_or(0.0, |value| value.parse().unwrap())
    }
}

/// Actor, verb and outcome of each entry.
fn outline(log: &[AuditEntry]) -> Vec<(&str, &str, &str)> {
    log.iter()
        .map(|entry| {
            (
                entry.who.as_str(),
                entry.what.as_str(),
                entry.outcome.as_str(),
            )
        })
        .collect()
}

fn detail(entry: &AuditEntry) -> Value {
    entry.detail.clone().into()
}

pub(crate) fn audit_log_has_actor_and_outcome_in_order(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let ann = Actor::new("ann").unwrap();
        acting_as(ann, async {
            fixture.write(&id, "f", "one").await;
            fixture.snapshot(&id, "a").await;
            let again = fixture
                .host
                .create_snapshot(&id, Some(snap("a")), Quiesce::WhereNeeded)
                .await;
            assert_eq!(again.unwrap_err().code(), ErrorCode::SnapshotExists);
            fixture.shell(&id, "true").await;
        })
        .await;
        fixture.host.turn_complete(&id).await.unwrap();
        fixture
            .host
            .rollback_session(&id, &snap("a"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert!(fixture.host.create_session(spec("s")).await.is_err());
        let fork = ForkRequest {
            from: Some(snap("a")),
            count: 1,
            ids: vec!["copy".parse().unwrap()],
            ..ForkRequest::default()
        };
        let copy = fixture
            .host
            .fork_session(&id, fork)
            .await
            .unwrap()
            .remove(0)
            .id;
        // Looking leaves no trace.
        fixture.host.get_session(&id).await.unwrap();
        fixture.read(&id, "f").await;

        let log = fixture.log(&id).await;
        let expected = [
            ("local", "create_session", "ok"),
            ("ann", "write_file", "ok"),
            ("ann", "create_snapshot", "ok"),
            ("ann", "create_snapshot", "SnapshotExists"),
            ("ann", "exec", "ok"),
            ("local", "turn_complete", "ok"),
            ("local", "rollback_session", "ok"),
            ("local", "create_session", "SessionExists"),
            ("local", "fork_session", "ok"),
        ];
        assert_eq!(outline(&log), expected);
        assert_eq!(
            detail(&log[1])["path"]
                .as_str()
                .map(|path| path.ends_with("/f")),
            Some(true)
        );
        assert_eq!(detail(&log[4]), json!({"argv": ["/bin/sh", "-c", "true"]}));
        assert_eq!(detail(&log[5]), json!({"snapshot": "turn-0001"}));
        assert_eq!(
            detail(&log[8]),
            json!({"from": "a", "count": 1, "sessions": ["copy"]})
        );
        assert_eq!(
            detail(&fixture.log(&copy).await[0]),
            json!({"forked_from": "s", "snapshot": "a"})
        );
        let newest = AuditQuery {
            order: AuditOrder::NewestFirst,
            ..AuditQuery::default()
        };
        let newest = fixture.host.audit(&id, newest).await.unwrap().items;
        assert!(newest.iter().eq(log.iter().rev()));
    })
}

pub(crate) fn audit_log_outlives_its_session_and_is_continued(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.host.destroy_session(&id).await.unwrap();
        fixture.restart().await;
        assert_eq!(fixture.log(&id).await.len(), 2);
        fixture.session("s").await;
        let whats: Vec<String> = fixture
            .log(&id)
            .await
            .into_iter()
            .map(|entry| entry.what)
            .collect();
        assert_eq!(
            whats,
            ["create_session", "destroy_session", "create_session"]
        );
        // Requests for sessions that do not exist are not recorded.
        let missing: SessionId = "missing".parse().unwrap();
        assert!(fixture.host.turn_complete(&missing).await.is_err());
        assert!(
            fixture
                .host
                .execute_tool(&missing, named("1", "list_dir", json!({})))
                .await
                .is_err()
        );
        let mut homeless = spec("homeless");
        homeless.base = "no-such-base".parse().unwrap();
        let homeless = fixture
            .host
            .create_session(homeless)
            .await
            .map(|_| ())
            .unwrap_err();
        assert_eq!(homeless.code(), ErrorCode::BaseNotFound);
        for name in ["missing", "homeless"] {
            let error = fixture
                .host
                .audit(&name.parse().unwrap(), AuditQuery::default())
                .await
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::SessionNotFound);
        }
        // Kept no longer than it has to be, unless the session is there.
        let gone = fixture.session("gone").await;
        fixture.host.destroy_session(&gone).await.unwrap();
        let short = HostConfig {
            audit_retention: Duration::from_millis(1),
            health_check_interval: Duration::from_millis(20),
            ..fixture.config.clone()
        };
        fixture.restart_with(short).await;
        fixture
            .eventually("the log is removed", async || {
                fixture.host.audit(&gone, AuditQuery::default()).await.err()
            })
            .await;
        assert_eq!(fixture.log(&id).await.len(), 3);
    })
}

pub(crate) fn tool_calls_are_audited_without_secrets(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        const SECRET: &str = "hunter2";
        let mut wanted = spec("s");
        wanted.base = "host".parse().unwrap();
        wanted.env.insert("TOKEN".into(), SECRET.into());
        let id = fixture.make(wanted).await.id;
        let lengthy = format!("true {}", "x".repeat(2000));
        for request in [
            named("1", "write_file", json!({"path": "f", "content": SECRET})),
            named(
                "2",
                "bash",
                json!({"cmd": "exit 3", "env": {"PASSWORD": SECRET}}),
            ),
            named("3", "read_file", json!({"path": "f"})),
            named("4", "read_file", json!({"path": "missing"})),
            named("5", "bash", json!({"cmd": lengthy})),
        ] {
            fixture.host.execute_tool(&id, request).await.unwrap();
        }
        // Answered again, and not done again.
        fixture
            .host
            .execute_tool(
                &id,
                named("1", "write_file", json!({"path": "f", "content": SECRET})),
            )
            .await
            .unwrap();
        fixture
            .refused(
                &id,
                named("6", "bash", json!({"cmd": "true", "content": SECRET})),
            )
            .await;
        fixture.write(&id, "g", SECRET).await;
        let mut command = ExecSpec::new(["/bin/true"]);
        command.env.insert("TOKEN".into(), SECRET.into());
        drop(fixture.host.exec(&id, command).await.unwrap());

        let log = fixture.log(&id).await;
        assert!(
            log.iter()
                .all(|entry| !format!("{entry:?}").contains(SECRET)),
            "{log:?}"
        );
        let tools: Vec<&AuditEntry> = log
            .iter()
            .filter(|entry| entry.what == "execute_tool")
            .collect();
        let told: Vec<(&str, &str, &str)> = tools
            .iter()
            .map(|entry| {
                let of = |key: &str| entry.detail[key].as_str().unwrap();
                (of("call"), of("tool"), entry.outcome.as_str())
            })
            .collect();
        let expected = [
            ("1", "write_file", "ok"),
            ("2", "bash", "failed"),
            ("3", "read_file", "ok"),
            ("4", "read_file", "failed"),
            ("5", "bash", "ok"),
            ("6", "bash", "InvalidArgument"),
        ];
        assert_eq!(told, expected);
        assert_eq!(
            (&tools[0].detail["path"], &tools[1].detail["exit_code"]),
            (&json!("f"), &json!(3))
        );
        assert!(tools[1].detail["duration_ms"].is_u64());
        assert_eq!(
            tools[4].detail["cmd"].as_str().unwrap().chars().count(),
            501
        );
    })
}

pub(crate) fn actions_of_the_janitor_are_audited(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let config = HostConfig {
            max_snapshots_per_session: 1,
            ..fixture.config.clone()
        };
        fixture.restart_with(config).await;
        let id = fixture.session("s").await;
        for _ in 0..2 {
            fixture.host.turn_complete(&id).await.unwrap();
        }
        let log = fixture.log(&id).await;
        let pruned = log
            .iter()
            .find(|entry| entry.what == "prune_snapshot")
            .unwrap();
        assert_eq!(
            (pruned.who.as_str(), detail(pruned)),
            ("host", json!({"snapshot": "turn-0001"}))
        );
        let mut short = spec("short");
        short.time_to_live = Some(Duration::from_millis(1));
        let short = fixture.make(short).await.id;
        let ended = fixture
            .eventually("it is destroyed", async || {
                fixture
                    .entries(&short)
                    .await
                    .into_iter()
                    .find(|entry| entry.what == "destroy_session")
            })
            .await;
        assert_eq!(
            (ended.who.as_str(), &ended.detail["reason"]),
            ("host", &json!("expired"))
        );
        assert!(fixture.metric("sandbar_snapshots_pruned_total").await >= 1.0);
        assert!(fixture.metric("sandbar_sessions_expired_total").await >= 1.0);
    })
}

pub(crate) fn metrics_count_verbs_and_tool_calls(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.snapshot(&id, "a").await;
        fixture
            .host
            .create_snapshot(&id, Some(snap("a")), Quiesce::WhereNeeded)
            .await
            .unwrap_err();
        fixture.done(&id, "list_dir", json!({})).await;
        fixture
            .tool(&id, "read_file", json!({"path": "missing"}))
            .await;
        let kinds = fixture.host.capabilities();
        let on = format!(
            "storage=\"{}\",runtime=\"{}\"",
            kinds.storage, kinds.runtime
        );
        for (sample, expected) in [
            (
                "sandbar_operations_total{operation=\"create_session\",outcome=\"ok\"}",
                1.0,
            ),
            (
                "sandbar_operations_total{operation=\"create_snapshot\",outcome=\"ok\"}",
                1.0,
            ),
            (
                "sandbar_operations_total{operation=\"create_snapshot\",outcome=\"SnapshotExists\"}",
                1.0,
            ),
            (
                &format!("sandbar_operation_seconds_count{{operation=\"create_snapshot\",{on}}}"),
                2.0,
            ),
            (
                "sandbar_tool_calls_total{tool=\"list_dir\",outcome=\"ok\"}",
                1.0,
            ),
            (
                "sandbar_tool_calls_total{tool=\"read_file\",outcome=\"failed\"}",
                1.0,
            ),
            (
                &format!("sandbar_tool_seconds_bucket{{le=\"+Inf\",tool=\"list_dir\",{on}}}"),
                1.0,
            ),
            ("sandbar_sessions{state=\"active\"}", 1.0),
            ("sandbar_sessions{state=\"failed\"}", 0.0),
            ("sandbar_tools_active", 0.0),
            ("sandbar_pool_healthy", 1.0),
            ("sandbar_audit_failures_total", 0.0),
            (
                &format!(
                    "sandbar_build_info{{version=\"{}\",{on}}}",
                    env!("CARGO_PKG_VERSION")
                ),
                1.0,
            ),
        ] {
            let counted = fixture.metric(sample).await;
            assert!(
                (counted - expected).abs() < f64::EPSILON,
                "{sample}: {counted}"
            );
        }
        let (total, left) = (
            fixture.metric("sandbar_storage_total_bytes").await,
            fixture.metric("sandbar_storage_available_bytes").await,
        );
        assert!(0.0 < left && left <= total);
        assert!(fixture.metric("sandbar_process_start_time_seconds").await > 1.7e9);
    })
}

/// A second connection to the state database.
fn state_database(fixture: &HostFixture) -> Connection {
    Connection::open(fixture.config.data_dir.join("state.db")).unwrap()
}

fn a_log_that_cannot_be_written(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        let refuse =
            "CREATE TRIGGER refuse BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END";
        state_database(fixture).execute_batch(refuse).unwrap();
        fixture.snapshot(&id, "a").await;
        fixture.done(&id, "list_dir", json!({})).await;
        assert_eq!(fixture.snapshot_names(&id).await, ["a"]);
        assert!((fixture.metric("sandbar_audit_failures_total").await - 2.0).abs() < f64::EPSILON);
        let errors = fixture.host.health().await.recent_errors;
        assert!(
            errors
                .iter()
                .any(|error| error.contains("on `s`: could not write the audit log")),
            "{errors:?}"
        );
        state_database(fixture)
            .execute_batch("DROP TRIGGER refuse")
            .unwrap();
        fixture.snapshot(&id, "b").await;
        assert_eq!(fixture.log(&id).await.len(), 2);
    })
}

#[test]
fn failed_audit_write_is_reported_and_fails_no_verb() {
    HostFixture::run(
        Backend::LocalDiskExt4,
        RuntimeKind::None,
        a_log_that_cannot_be_written,
    );
}

fn a_log_that_was_changed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.session("s").await;
        fixture.snapshot(&id, "a").await;
        let number = fixture.log(&id).await[1].number;
        let change = "UPDATE audit SET who = 'another-actor' WHERE what = 'create_snapshot'";
        state_database(fixture).execute_batch(change).unwrap();
        fixture.snapshot(&id, "b").await;
        fixture.restart().await;
        assert_eq!(
            fixture.host.verify_audit(&id).await.unwrap(),
            AuditVerdict::Broken { number }
        );
    })
}

#[test]
fn tampered_audit_log_fails_verification() {
    HostFixture::run(
        Backend::LocalDiskExt4,
        RuntimeKind::None,
        a_log_that_was_changed,
    );
}

#[test]
fn audit_log_of_a_session_is_bounded_and_verifies() {
    let configure = |config: &mut HostConfig| config.max_audit_size = ByteCount::kib(4);
    HostFixture::run_with(
        Backend::LocalDiskExt4,
        RuntimeKind::None,
        configure,
        |fixture| {
            Box::pin(async move {
                let id = fixture.session("s").await;
                // Refused, and with a name as long as a caller likes.
                let missing = format!("{}/x", "missing/".repeat(300));
                for _ in 0..100 {
                    fixture
                        .host
                        .move_path(
                            &id,
                            missing.as_ref(),
                            missing.as_ref(),
                            MakeDirOptions::default(),
                        )
                        .await
                        .unwrap_err();
                }
                fixture.host.destroy_session(&id).await.unwrap();
                let log = fixture.log(&id).await;
                let moves = log.iter().filter(|entry| entry.what == "move_path").count();
                assert!((1..10).contains(&moves), "{moves}");
                let size = |entry: &AuditEntry| serde_json::to_string(&entry.detail).unwrap().len();
                assert!(log.iter().all(|entry| size(entry) < 2000));
                let left_out: u64 = log
                    .iter()
                    .filter(|entry| entry.what == "entries_left_out")
                    .map(|entry| detail(entry)["entries"]["move_path"].as_u64().unwrap())
                    .sum();
                assert_eq!(moves as u64 + left_out, 100);
                assert_eq!(log.last().unwrap().what, "destroy_session");
            })
        },
    );
}
