//! Calls in great number, at bad moments, and for what the token does not cover.

use std::{io::Cursor, path::Path, sync::Arc, time::Duration};

use sandbar_client::Client;
use sandbar_core::{
    AuditQuery, ErrorCode, ExecSpec, ForkRequest, LaterSnapshots, LogQuery, NetworkPolicy,
    PageRequest, ProcessSpec, Quiesce, Replay, Result, SessionFilter, SessionId, SnapshotName,
    TokenScope, WaitFor, WriteOptions,
};
use sandbar_testing::scaled;
use serde_json::json;

use crate::{
    attacker::{Attacker, answered, finish, flood, tool_request},
    attempt::attempts,
};

attempts! {
    exec_flood,
    exec_of_missing_programs,
    tools_under_one_id,
    tools_cancelled,
    launch_flood,
    launch_that_always_restarts,
    snapshot_flood,
    rollback_flood,
    pause_and_resume_flood,
    hibernate_and_wake_flood,
    audit_volume,
    log_volume,
    attach_flood,
    wait_flood,
    file_flood,
    metadata_flood,
    calls_beyond_the_token,
    destroys_itself_while_it_works,
}

/// Returns the number of calls of a flood, at least a third of it.
fn load(full: u64) -> usize {
    usize::try_from(scaled(full, full / 3)).unwrap()
}

impl Attacker {
    /// Makes calls from several tasks at once.
    async fn many<T, F>(
        &self,
        what: &'static str,
        count: usize,
        at_once: usize,
        call: impl Fn(Client, SessionId, usize) -> F,
    ) -> Vec<Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        flood(what, count, at_once, |number| {
            call(self.client.clone(), self.id.clone(), number)
        })
        .await
    }
}

async fn exec_flood(attacker: Arc<Attacker>) {
    attacker
        .many("exec", load(300), 64, async |client, id, _| {
            finish(client.exec(&id, ExecSpec::new(["true"])).await?).await
        })
        .await;
}

async fn exec_of_missing_programs(attacker: Arc<Attacker>) {
    attacker
        .prepare("import os\nopen('/workspace/loop','w').write('#!/workspace/loop\\n'); os.chmod('/workspace/loop',0o755)\nopen('/workspace/odd','wb').write(b'\\x7fELF'+bytes(3000)); os.chmod('/workspace/odd',0o755)\nos.mkfifo('/workspace/fifo',0o755)")
        .await;
    let programs = [
        "/missing",
        "/workspace/loop",
        "/workspace/odd",
        "/workspace/fifo",
        "/workspace",
        "/proc/1/exe",
    ];
    attacker
        .many(
            "exec",
            load(200),
            32,
            move |client, id, number| async move {
                let mut spec = ExecSpec::new([programs[number % programs.len()]]);
                spec.cwd = (number % 3 == 0).then(|| "/workspace/fifo".to_owned());
                finish(client.exec(&id, spec).await?).await
            },
        )
        .await;
}

async fn tools_under_one_id(attacker: Arc<Attacker>) {
    attacker
        .many("tool", 200, 100, async |client, id, number| {
            let params = json!({"cmd": format!("sleep 0.2; echo {}", number % 3)});
            let request = tool_request("bash", "the-same", &params);
            client.execute_tool(&id, &request).await
        })
        .await;
}

async fn tools_cancelled(attacker: Arc<Attacker>) {
    attacker
        .many("tool", 150, 50, async |client, id, number| {
            let (tool, params) = match number % 3 {
                0 => ("bash", json!({"cmd": "sleep 1000"})),
                1 => ("grep", json!({"pattern": "x{1,50}y", "path": "/usr/lib"})),
                _ => ("glob", json!({"pattern": "**/*.zzz", "path": "/"})),
            };
            let request = tool_request(tool, &format!("cancel-{number}"), &params);
            let call = client.execute_tool(&id, &request);
            let wait = Duration::from_millis(u64::try_from(number % 40).unwrap());
            match tokio::time::timeout(wait, call).await {
                Ok(outcome) => outcome.map(drop),
                Err(_) => Ok(()),
            }
        })
        .await;
    attacker.hold(3).await;
}

async fn launch_flood(attacker: Arc<Attacker>) {
    attacker
        .many("launch", 200, 32, async |client, id, _| {
            client
                .launch_process(&id, ProcessSpec::new(["sleep", "1000"]))
                .await
        })
        .await;
    let listed = attacker.client.list_processes(&attacker.id);
    let _ = answered("list_processes", listed).await;
    attacker.hold(3).await;
}

async fn launch_that_always_restarts(attacker: Arc<Attacker>) {
    attacker
        .many("launch", load(60), 16, async |client, id, _| {
            let spec = ProcessSpec {
                restart: sandbar_core::RestartPolicy::Always,
                ..ProcessSpec::new(["false"])
            };
            client.launch_process(&id, spec).await
        })
        .await;
    attacker.hold(10).await;
}

async fn snapshot_flood(attacker: Arc<Attacker>) {
    attacker
        .many("snapshot", 60, 16, async |client, id, number| {
            if number % 2 == 0 {
                return client.turn_complete(&id).await.map(drop);
            }
            let name: SnapshotName = format!("s{number}").parse()?;
            client
                .create_snapshot(&id, Some(&name), Quiesce::Always)
                .await
                .map(drop)
        })
        .await;
}

async fn rollback_flood(attacker: Arc<Attacker>) {
    let name: SnapshotName = "s".parse().unwrap();
    let taken = attacker
        .client
        .create_snapshot(&attacker.id, Some(&name), Quiesce::WhereNeeded);
    answered("snapshot", taken).await.unwrap();
    attacker
        .many("rollback", 30, 8, async |client, id, number| {
            if number % 3 == 0 {
                return finish(client.exec(&id, ExecSpec::new(["true"])).await?)
                    .await
                    .map(drop);
            }
            let name: SnapshotName = "s".parse()?;
            client
                .rollback_session(&id, &name, LaterSnapshots::Keep)
                .await
                .map(drop)
        })
        .await;
}

async fn pause_and_resume_flood(attacker: Arc<Attacker>) {
    let _busy = attacker
        .started("print('ready',flush=True)\nwhile 1: pass")
        .await;
    attacker
        .many("pause", 90, 12, async |client, id, number| {
            match number % 3 {
                0 => client.pause_session(&id).await.map(drop),
                1 => client.resume_session(&id).await.map(drop),
                _ => client.exec(&id, ExecSpec::new(["true"])).await.map(drop),
            }
        })
        .await;
    let _ = attacker.client.resume_session(&attacker.id).await;
}

async fn hibernate_and_wake_flood(attacker: Arc<Attacker>) {
    attacker
        .prepare("import os\nopen('/workspace/noise','wb').write(os.urandom(20000000))")
        .await;
    attacker
        .many("hibernate", 16, 6, async |client, id, number| {
            match number % 2 {
                0 => client.hibernate_session(&id).await.map(drop),
                _ => client.wake_session(&id).await.map(drop),
            }
        })
        .await;
}

async fn audit_volume(attacker: Arc<Attacker>) {
    let long = "x".repeat(500);
    let argv = vec![long; 50];
    attacker
        .many("exec", 200, 32, |client, id, _| {
            let spec = ExecSpec::new(argv.clone());
            async move { client.exec(&id, spec).await.map(drop) }
        })
        .await;
    attacker
        .many("audit", 40, 16, async |client, id, _| {
            client.audit(&id, &AuditQuery::default()).await.map(drop)?;
            client.verify_audit(&id).await.map(drop)
        })
        .await;
}

async fn log_volume(attacker: Arc<Attacker>) {
    let processes = attacker
        .many("launch", load(40), 8, async |client, id, _| {
            let script = "yes 'a line of a log' | head -c 4000000; sleep 1000";
            client
                .launch_process(&id, ProcessSpec::new(["sh", "-c", script]))
                .await
        })
        .await;
    for process in processes.into_iter().flatten() {
        let query = LogQuery {
            tail: Some(u64::MAX),
            ..LogQuery::default()
        };
        let logs = attacker
            .client
            .process_logs(&attacker.id, &process.id, query);
        let Ok(mut logs) = answered("logs", logs).await else {
            continue;
        };
        let _ = answered("logs", logs.next()).await;
    }
    attacker.hold(5).await;
}

async fn attach_flood(attacker: Arc<Attacker>) {
    let process = attacker
        .client
        .launch_process(&attacker.id, ProcessSpec::new(["yes"]));
    let process = answered("launch", process).await.unwrap();
    attacker
        .many("attach", 200, 50, |client, id, _| {
            let process = process.id.clone();
            async move {
                let mut attached = client.attach_process(&id, &process, Replay::All).await?;
                for _ in 0..20 {
                    attached.next_event().await?;
                }
                Ok(())
            }
        })
        .await;
}

async fn wait_flood(attacker: Arc<Attacker>) {
    let spec = ProcessSpec::new(["sleep", "2"]);
    let process = attacker.client.launch_process(&attacker.id, spec);
    let process = answered("launch", process).await.unwrap();
    attacker
        .many("wait", 600, 600, |client, id, _| {
            let process = process.id.clone();
            async move { client.wait_process(&id, &process, WaitFor::Exited).await }
        })
        .await;
}

async fn file_flood(attacker: Arc<Attacker>) {
    attacker
        .many("write_file", 400, 64, async |client, id, number| {
            let path = format!("/workspace/f/{}", number % 100);
            let options = WriteOptions {
                create_dirs: true,
                ..WriteOptions::default()
            };
            let text = Cursor::new(vec![b'x'; 50_000]);
            client
                .write_file(&id, Path::new(&path), options, text)
                .await?;
            let mut sink = tokio::io::sink();
            client.read_file(&id, Path::new(&path), &mut sink).await?;
            client.remove_path(&id, Path::new(&path)).await
        })
        .await;
}

async fn metadata_flood(attacker: Arc<Attacker>) {
    attacker
        .many("metadata", 400, 64, async |client, id, number| {
            match number % 5 {
                0 => client.get_session_with_usage(&id).await.map(drop),
                1 => client.list_snapshots(&id).await.map(drop),
                2 => client
                    .list_sessions(&SessionFilter::default(), &PageRequest::default())
                    .await
                    .map(drop),
                3 => client.get_network(&id).await.map(drop),
                _ => client.list_tools().await.map(drop),
            }
        })
        .await;
}

async fn calls_beyond_the_token(attacker: Arc<Attacker>) {
    let (client, own) = (&attacker.client, &attacker.id);
    let probe: SessionId = "probe".parse().unwrap();
    let snapshot: SnapshotName = "s".parse().unwrap();
    let name = "mine".parse().unwrap();
    let codes = |outcome: Result<()>| outcome.map_err(|error| error.code());
    for (what, outcome) in [
        (
            "set_expiry",
            codes(
                client
                    .set_expiry(own, Some(Duration::from_hours(1)), None)
                    .await
                    .map(drop),
            ),
        ),
        (
            "fork_session",
            codes(
                client
                    .fork_session(
                        own,
                        ForkRequest {
                            count: 1000,
                            ..ForkRequest::default()
                        },
                    )
                    .await
                    .map(drop),
            ),
        ),
        (
            "set_network",
            codes(
                client
                    .set_network(own, NetworkPolicy::full())
                    .await
                    .map(drop),
            ),
        ),
        (
            "create_token",
            codes(
                client
                    .create_token(&name, &[TokenScope::Admin], None)
                    .await
                    .map(drop),
            ),
        ),
        ("list_tokens", codes(client.list_tokens().await.map(drop))),
        ("list_secrets", codes(client.list_secrets().await.map(drop))),
        (
            "destroy_session",
            codes(client.destroy_session(&probe).await),
        ),
        (
            "get_session",
            codes(client.get_session(&probe).await.map(drop)),
        ),
        (
            "exec",
            codes(client.exec(&probe, ExecSpec::new(["true"])).await.map(drop)),
        ),
        (
            "rollback",
            codes(
                client
                    .rollback_session(&probe, &snapshot, LaterSnapshots::Drop)
                    .await
                    .map(drop),
            ),
        ),
        (
            "stat",
            codes(client.stat(&probe, Path::new("/workspace")).await.map(drop)),
        ),
        ("pause", codes(client.pause_session(&probe).await.map(drop))),
        (
            "hibernate",
            codes(client.hibernate_session(&probe).await.map(drop)),
        ),
    ] {
        assert_eq!(outcome, Err(ErrorCode::PermissionDenied), "{what}");
    }
    // The same in great number.
    attacker
        .many("get_session", 300, 64, async |client, _, number| {
            client
                .get_session(&format!("guess-{number}").parse()?)
                .await
        })
        .await;
}

async fn destroys_itself_while_it_works(attacker: Arc<Attacker>) {
    let calls = attacker.many("exec", 100, 50, async |client, id, number| match number {
        60 => client.destroy_session(&id).await,
        _ => finish(client.exec(&id, ExecSpec::new(["sleep", "0.05"])).await?)
            .await
            .map(drop),
    });
    calls.await;
}
