//! Every error that a host can raise, provoked on a real host, in every form of every protocol.
//!
//! Four codes are not here: `SnapshotsNotAvailable`, which no storage raises; `Timeout`, which the
//! API returns only for a box that does not respond; and the limits `TooManyCalls`
//! (`call_limits.rs`) and `SlowReader` (`streams.rs`). `sandbar-proto` tests that their codes
//! survive the wire.

use std::{collections::BTreeSet, path::Path, time::Duration};

use sandbar_client::{Client, WireProtocol};
use sandbar_core::{ErrorCode, Resources, SessionId, ToolCallId, ToolEvent, ToolRequest};
use sandbar_host::HostConfig;
use sandbar_testing::{FileSystem, Image};
use serde_json::{Value, json};

use crate::{
    wire_forms::{BadCall, Form},
    world::World,
};

/// Expected codes, in the order of `spec/api.md`.
const SPECIFIED: [(&str, u16, &[ErrorCode]); 9] = [
    (
        "not_found",
        404,
        &[
            ErrorCode::SessionNotFound,
            ErrorCode::ProcessNotFound,
            ErrorCode::SnapshotNotFound,
            ErrorCode::BaseNotFound,
            ErrorCode::FileNotFound,
            ErrorCode::SecretNotFound,
            ErrorCode::TokenNotFound,
            ErrorCode::UserNotFound,
        ],
    ),
    (
        "already_exists",
        409,
        &[
            ErrorCode::SessionExists,
            ErrorCode::SnapshotExists,
            ErrorCode::BaseExists,
            ErrorCode::TokenExists,
        ],
    ),
    (
        "failed_precondition",
        400,
        &[
            ErrorCode::SessionPaused,
            ErrorCode::SessionDestroying,
            ErrorCode::InvalidState,
            ErrorCode::RollbackInProgress,
            ErrorCode::ToolsInFlight,
        ],
    ),
    (
        "resource_exhausted",
        429,
        &[ErrorCode::MaxSessionsReached, ErrorCode::StorageFull],
    ),
    ("invalid_argument", 400, &[ErrorCode::InvalidArgument]),
    ("unauthenticated", 401, &[ErrorCode::Unauthenticated]),
    ("permission_denied", 403, &[ErrorCode::PermissionDenied]),
    ("deadline_exceeded", 504, &[ErrorCode::ProcessReadyTimeout]),
    // Not in the specification: a stopping host, and internal errors.
    ("unavailable", 503, &[ErrorCode::Unavailable]),
];

/// Codes whose errors may have no field or hint, as they report the state of the machine.
const WITHOUT_HINT: [ErrorCode; 1] = [ErrorCode::Internal];

fn specified(code: ErrorCode) -> (&'static str, u16) {
    let found = SPECIFIED.iter().find(|(_, _, codes)| codes.contains(&code));
    found.map_or(("internal", 500), |(rpc, status, _)| (*rpc, *status))
}

/// Call with its expected error.
struct Row {
    code: ErrorCode,
    call: BadCall,
    session: Option<&'static str>,
    field: Option<&'static str>,
}

fn unary(code: ErrorCode, method: &'static str, body: Value) -> Row {
    Row {
        code,
        call: BadCall {
            method,
            is_stream: false,
            body,
            header: None,
        },
        session: None,
        field: None,
    }
}

fn stream(code: ErrorCode, method: &'static str, body: Value) -> Row {
    Row {
        code,
        call: BadCall {
            method,
            is_stream: true,
            body,
            header: None,
        },
        session: None,
        field: None,
    }
}

impl Row {
    fn of(mut self, session: &'static str) -> Self {
        self.session = Some(session);
        self
    }

    fn at(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.call.header = Some((name, value));
        self
    }

    /// Makes the call in every form, and checks that the errors are the same.
    async fn check(&self, world: &World, seen: &mut BTreeSet<&'static str>) {
        let (rpc_code, status) = specified(self.code);
        let mut messages = BTreeSet::new();
        for form in Form::ALL {
            let told = world.told(&self.call, form).await;
            let context = format!("{:?} {form:?}: {told:?}", self.call);
            // Only unary Connect calls have the error in the HTTP status; all others have it at the
            // end.
            let has_status =
                matches!(form, Form::ConnectJson | Form::ConnectBinary) && !self.call.is_stream;
            assert_eq!(
                told.status.as_u16(),
                if has_status { status } else { 200 },
                "{context}"
            );
            assert_eq!(told.rpc_code, rpc_code, "{context}");
            assert_eq!(told.detail["code"], self.code.as_str(), "{context}");
            assert_eq!(
                told.detail.get("sessionId").and_then(Value::as_str),
                self.session,
                "{context}"
            );
            if self.field.is_some() {
                assert_eq!(
                    told.detail.get("field").and_then(Value::as_str),
                    self.field,
                    "{context}"
                );
            }
            assert!(!told.message.is_empty(), "{context}");
            let has_hint = told
                .detail
                .get("hint")
                .and_then(Value::as_str)
                .is_some_and(|hint| !hint.is_empty());
            assert!(has_hint || WITHOUT_HINT.contains(&self.code), "{context}");
            messages.insert(told.message);
        }
        assert_eq!(messages.len(), 1, "every form says the same: {messages:?}");
        seen.insert(self.code.as_str());
    }
}

/// Tool call that runs until it is dropped.
async fn busy(client: &Client, session: &str) -> sandbar_client::RemoteTool {
    let Value::Object(params) = json!({"cmd": "echo begun; sleep 1000"}) else {
        panic!("an object")
    };
    let call = ToolCallId::new("busy").unwrap();
    let request = ToolRequest {
        tool: "bash".into(),
        call,
        params,
        resources: Resources::default(),
    };
    let mut tool = client
        .execute_tool_stream(&SessionId::new(session).unwrap(), &request)
        .await
        .unwrap();
    assert!(matches!(
        tool.next_event().await.unwrap(),
        Some(ToolEvent::Progress(_))
    ));
    tool
}

async fn make(world: &World, session: &str) {
    let answer = world
        .call(
            "CreateSession",
            &json!({"baseSnapshot": "small", "sessionId": session}),
        )
        .await;
    assert!(answer.status.is_success(), "{:?}", answer.body);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_error_has_its_fields_in_every_protocol() {
    let mut seen = BTreeSet::new();
    let settings = |directory: &Path, config: &mut HostConfig| {
        config.max_sessions = 3;
        config.pause_drain_timeout = Duration::from_millis(1);
        // A file in place of the pack directory makes hibernation fail.
        let packs = directory.join("packs");
        std::fs::write(&packs, "").unwrap();
        config.object_store = Some(packs.to_str().unwrap().to_owned());
    };
    World::run_with(settings, async |world| {
        use ErrorCode as E;
        make(world, "box").await;
        make(world, "other").await;
        world
            .call("CreateToken", &json!({"name": "taken", "scopes": ["read"]}))
            .await;
        world
            .call("CreateSnapshot", &json!({"sessionId": "box", "name": "s1"}))
            .await;
        let late = json!({
            "sessionId": "box", "argv": ["/bin/sleep", "1000"],
            "ready": {"log": {"text": "never"}}, "readyTimeout": "0.010s",
        });
        let late = world.call("LaunchProcess", &late).await.json()["process"]["processId"].clone();
        let rows = [
            unary(
                E::SessionNotFound,
                "GetSession",
                json!({"sessionId": "none"}),
            )
            .of("none")
            .at("session_id"),
            stream(
                E::SessionNotFound,
                "ReadFile",
                json!({"sessionId": "none", "path": "f"}),
            )
            .of("none"),
            unary(
                E::SessionExists,
                "CreateSession",
                json!({"baseSnapshot": "small", "sessionId": "box"}),
            )
            .of("box")
            .at("session_id"),
            unary(
                E::MaxSessionsReached,
                "ForkSession",
                json!({"sessionId": "box", "count": 2}),
            )
            .of("box"),
            unary(
                E::BaseNotFound,
                "CreateSession",
                json!({"baseSnapshot": "none", "sessionId": "new"}),
            )
            .of("new"),
            unary(
                E::ProcessNotFound,
                "GetProcessStatus",
                json!({"sessionId": "box", "processId": "p"}),
            )
            .of("box"),
            stream(
                E::ProcessNotFound,
                "ProcessLogs",
                json!({"sessionId": "box", "processId": "p"}),
            )
            .of("box"),
            unary(
                E::SnapshotNotFound,
                "RollbackSession",
                json!({"sessionId": "box", "snapshot": "s2"}),
            )
            .of("box"),
            stream(
                E::SnapshotNotFound,
                "Diff",
                json!({"sessionId": "box", "from": "s2"}),
            )
            .of("box"),
            unary(
                E::SnapshotExists,
                "CreateSnapshot",
                json!({"sessionId": "box", "name": "s1"}),
            )
            .of("box"),
            unary(E::BaseNotFound, "DeleteBase", json!({"name": "none"})),
            stream(
                E::BaseExists,
                "ImportBase",
                json!({"name": "small", "source": "/usr/lib64"}),
            ),
            unary(
                E::FileNotFound,
                "Stat",
                json!({"sessionId": "box", "path": "none"}),
            )
            .of("box"),
            stream(
                E::FileNotFound,
                "ReadFile",
                json!({"sessionId": "box", "path": "none"}),
            )
            .of("box"),
            stream(
                E::FileNotFound,
                "Exec",
                json!({"start": {"sessionId": "box", "argv": ["none"]}}),
            )
            .of("box")
            .at("argv"),
            stream(
                E::UserNotFound,
                "Exec",
                json!({"start": {"sessionId": "box", "argv": ["sh"], "user": "none"}}),
            )
            .of("box")
            .at("user"),
            unary(E::SecretNotFound, "DeleteSecret", json!({"name": "none"})),
            unary(E::TokenNotFound, "RevokeToken", json!({"name": "none"})),
            unary(
                E::TokenExists,
                "CreateToken",
                json!({"name": "taken", "scopes": ["read"]}),
            ),
            unary(
                E::InvalidArgument,
                "GetSession",
                json!({"sessionId": "a/b"}),
            )
            .at("session_id"),
            stream(E::InvalidArgument, "ReadFile", json!({"sessionId": "box"}))
                .of("box")
                .at("path"),
            unary(E::InvalidState, "ListBases", json!({}))
                .with("x-api-version", "v0")
                .at("x-api-version"),
            stream(
                E::InvalidState,
                "ReadFile",
                json!({"sessionId": "box", "path": "f"}),
            )
            .with("x-api-version", "v0")
            .at("x-api-version"),
            unary(
                E::InvalidState,
                "SendProcessInput",
                json!({"sessionId": "box", "processId": late, "data": "YQ=="}),
            )
            .of("box"),
            unary(E::Unauthenticated, "ListBases", json!({})).with("authorization", "Bearer wrong"),
            stream(
                E::Unauthenticated,
                "Diff",
                json!({"sessionId": "box", "from": "s1"}),
            )
            .with("authorization", "Bearer wrong"),
            // A file that not even root can read.
            stream(
                E::PermissionDenied,
                "ImportBase",
                json!({"name": "new", "source": "/sys/bus/cpu/drivers_probe"}),
            )
            .at("source"),
            unary(
                E::ProcessReadyTimeout,
                "WaitProcess",
                json!({"sessionId": "box", "processId": late, "waitFor": "WAIT_FOR_READY"}),
            )
            .of("box"),
            unary(
                E::Internal,
                "HibernateSession",
                json!({"sessionId": "other"}),
            )
            .of("other"),
        ];
        for row in rows {
            row.check(world, &mut seen).await;
        }

        make(world, "last").await;
        unary(
            E::MaxSessionsReached,
            "CreateSession",
            json!({"baseSnapshot": "small"}),
        )
        .check(world, &mut seen)
        .await;

        let client = world.client(WireProtocol::Connect).await;
        let tool = busy(&client, "box").await;
        unary(
            E::ToolsInFlight,
            "RollbackSession",
            json!({"sessionId": "box", "snapshot": "s1"}),
        )
        .of("box")
        .check(world, &mut seen)
        .await;
        drop(tool);

        let paused = world
            .call("PauseSession", &json!({"sessionId": "other"}))
            .await;
        assert!(paused.status.is_success(), "{:?}", paused.body);
        let call = json!({"sessionId": "other", "toolName": "bash", "toolCallId": "1", "params": {"cmd": "true"}});
        unary(E::SessionPaused, "ExecuteTool", call.clone())
            .of("other")
            .check(world, &mut seen)
            .await;
        stream(E::SessionPaused, "ExecuteToolStream", call)
            .of("other")
            .check(world, &mut seen)
            .await;

        world.host.shutdown().await.unwrap();
        unary(
            E::Unavailable,
            "Stat",
            json!({"sessionId": "box", "path": "/"}),
        )
        .of("box")
        .check(world, &mut seen)
        .await;
        stream(
            E::Unavailable,
            "ReadFile",
            json!({"sessionId": "box", "path": "f"}),
        )
        .of("box")
        .check(world, &mut seen)
        .await;
    });
    while_exclusive_work_waits(&mut seen);
    on_a_full_disk(&mut seen);
    let elsewhere = [
        ErrorCode::SnapshotsNotAvailable,
        ErrorCode::Timeout,
        ErrorCode::TooManyCalls,
        ErrorCode::SlowReader,
    ];
    let all: BTreeSet<&str> = ErrorCode::ALL
        .iter()
        .filter(|code| !elsewhere.contains(code))
        .map(|code| code.as_str())
        .collect();
    assert_eq!(seen, all, "every code was provoked");
}

/// Rollback and destruction wait for a tool that does not end, and calls meanwhile get their error.
fn while_exclusive_work_waits(seen: &mut BTreeSet<&'static str>) {
    let patient =
        |_: &Path, config: &mut HostConfig| config.pause_drain_timeout = Duration::from_hours(1);
    World::run_with(patient, async |world| {
        use ErrorCode as E;
        for (session, code, method, body) in [
            (
                "back",
                E::RollbackInProgress,
                "RollbackSession",
                json!({"sessionId": "back", "snapshot": "s1"}),
            ),
            (
                "gone",
                E::SessionDestroying,
                "DestroySession",
                json!({"sessionId": "gone"}),
            ),
        ] {
            make(world, session).await;
            world
                .call(
                    "CreateSnapshot",
                    &json!({"sessionId": session, "name": "s1"}),
                )
                .await;
            let client = world.client(WireProtocol::Connect).await;
            let tool = busy(&client, session).await;
            let look = json!({"sessionId": session, "path": "/"});
            let waiting = async {
                while world.call("Stat", &look).await.status.is_success() {
                    tokio::task::yield_now().await;
                }
                unary(code, "Stat", look.clone())
                    .of(session)
                    .check(world, seen)
                    .await;
                stream(code, "ReadFile", look.clone())
                    .of(session)
                    .check(world, seen)
                    .await;
                drop(tool);
            };
            let (answer, ()) = tokio::join!(world.call(method, &body), waiting);
            assert!(answer.status.is_success(), "{:?}", answer.body);
        }
    });
}

/// Storage on a file system of a few MiB.
fn on_a_full_disk(seen: &mut BTreeSet<&'static str>) {
    let mut disk = None;
    let small = |directory: &Path, config: &mut HostConfig| {
        let image = Image::new(directory, FileSystem::Tmpfs, 24);
        config.sessions_root_dir = Some(image.path().join("storage"));
        // Otherwise the host would reject sessions long before the disk is full.
        config.pool_space_crit_threshold = 1.0;
        disk = Some(image);
    };
    World::run_with(small, async |world| {
        make(world, "box").await;
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("large"), vec![7; 32 << 20]).unwrap();
        let body = json!({"name": "large", "source": source.path()});
        stream(ErrorCode::StorageFull, "ImportBase", body)
            .check(world, seen)
            .await;
    });
}
