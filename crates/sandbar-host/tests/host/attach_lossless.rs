//! Attachments with back-pressure.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use rusqlite::Connection;
use sandbar_core::{
    AttachEvent, ErrorCode, LogQuery, ProcessExit, ProcessSpec, ProcessStatus, Replay, Resources,
    SessionId, StdinMode,
};
use sandbar_host::Attachment;

use crate::{fixture::HostFixture, processes::script};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

const SIGKILL: i32 = 9;

/// Writes without end, more than any buffer holds.
const FLOOD: &str = "exec cat /dev/zero";

/// A process waits for a reader that is more than this behind.
const READER_LAG: usize = 256 << 10;

/// All it tells: stdout, stderr and the end.
async fn all(attachment: &mut Attachment) -> (Vec<u8>, Vec<u8>, ProcessExit) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match attachment.next_event().await.unwrap() {
            AttachEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            AttachEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            AttachEvent::Exited(exit) => return (stdout, stderr, exit),
            missed @ AttachEvent::Missed { .. } => panic!("{missed:?}"),
        }
    }
}

impl HostFixture {
    async fn attached(&self, id: &SessionId, spec: ProcessSpec) -> Attachment {
        self.host.launch_attached(id, spec).await.unwrap().1
    }
}

pub(crate) fn launch_attached_gets_output_from_the_first_byte(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let spec = ProcessSpec {
            stdin: StdinMode::Piped,
            ..script("echo first; echo other >&2; cat; exit 3")
        };
        let (info, mut attachment) = fixture.host.launch_attached(&id, spec).await.unwrap();
        assert!(info.pid.is_some());
        let stdin = attachment.stdin().unwrap();
        stdin.write("typed\n".into()).await.unwrap();
        stdin.close();
        let (stdout, stderr, exit) = all(&mut attachment).await;
        assert_eq!(
            (&stdout[..], &stderr[..]),
            (&b"first\ntyped\n"[..], &b"other\n"[..])
        );
        assert_eq!((exit.code, exit.reason), (Some(3), None));
        assert!(!attachment.timed_out());
        assert_eq!(attachment.next_event().await, None);
        // More than is kept, at the reader's own pace.
        let mut much = fixture
            .attached(
                &id,
                script("head -c 5000000 /dev/zero; head -c 3000000 /dev/zero >&2"),
            )
            .await;
        let (stdout, stderr, _) = all(&mut much).await;
        assert_eq!((stdout.len(), stderr.len()), (5_000_000, 3_000_000));
        let missing = fixture
            .host
            .launch_attached(&id, ProcessSpec::new(["no-such-program"]))
            .await
            .unwrap_err();
        assert_eq!(
            (missing.code(), missing.field()),
            (ErrorCode::FileNotFound, Some("argv"))
        );
    })
}

pub(crate) fn process_with_a_stuck_lossless_reader_can_be_killed(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        // A blocked process continues when its reader is dropped.
        let stuck = fixture
            .attached(&id, script("head -c 9000000 /dev/zero; exit 4"))
            .await;
        let process = stuck.process().id.clone();
        drop(stuck);
        assert_eq!(
            fixture.exited(&id, &process).await.exit.unwrap().code,
            Some(4)
        );

        let mut killed = fixture.attached(&id, script(FLOOD)).await;
        let process = killed.process().id.clone();
        let Some(AttachEvent::Stdout(first)) = killed.next_event().await else {
            panic!("it wrote nothing")
        };
        let follow = LogQuery {
            follow: true,
            ..LogQuery::default()
        };
        let mut logs = fixture
            .host
            .process_logs(&id, &process, follow)
            .await
            .unwrap();
        let mut written = 0;
        while written <= first.len() + READER_LAG {
            written += logs.next().await.unwrap().bytes.len();
        }
        fixture
            .host
            .kill_process(&id, &process, SIGKILL)
            .await
            .unwrap();
        let info = fixture.exited(&id, &process).await;
        assert_eq!(info.exit.as_ref().unwrap().signal, Some(SIGKILL));
        let (rest, _, exit) = all(&mut killed).await;
        assert!(!first.is_empty() && !rest.is_empty());
        assert_eq!(Some(exit), info.exit);

        let mut last = fixture.attached(&id, script(FLOOD)).await;
        fixture.host.destroy_session(&id).await.unwrap();
        let (_, _, exit) = all(&mut last).await;
        assert_eq!(exit.reason.as_deref(), Some("session destroyed"));
    })
}

pub(crate) fn process_is_found_by_pid_and_tag(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let spec = ProcessSpec {
            stdin: StdinMode::Piped,
            tag: Some("mine".into()),
            cwd: Some("/".into()),
            ..script("echo up; read line; echo \"got $line\"; exit 7")
        };
        let (info, mut attachment) = fixture
            .host
            .launch_attached(&id, spec.clone())
            .await
            .unwrap();
        let pid = info.pid.unwrap();
        let running = fixture.host.running_processes(&id).await.unwrap();
        assert_eq!(
            (running.len(), running[0].pid, &running[0].spec),
            (1, pid, &spec)
        );
        assert_eq!(
            fixture
                .host
                .process_by_tag(&id, "mine")
                .await
                .unwrap()
                .info
                .id,
            info.id
        );
        let unknown = fixture.host.process_by_tag(&id, "other").await.unwrap_err();
        assert_eq!(unknown.code(), ErrorCode::ProcessNotFound);
        let Some(AttachEvent::Stdout(up)) = attachment.next_event().await else {
            panic!("it wrote nothing")
        };
        assert_eq!(up, "up\n");
        drop(attachment);

        // A later attachment gets output from now on only.
        let found = fixture.host.process_by_pid(&id, pid).await.unwrap();
        let mut attachment = fixture
            .host
            .attach_lossless(&id, &found.info.id, Replay::None)
            .await
            .unwrap();
        fixture
            .host
            .write_process_stdin(&id, &found.info.id, Bytes::from("this\n"))
            .await
            .unwrap();
        let (stdout, _, exit) = all(&mut attachment).await;
        assert_eq!((&stdout[..], exit.code), (&b"got this\n"[..], Some(7)));

        // Afterwards it is still known how it ended, and what it wrote.
        let found = fixture.host.process_by_pid(&id, pid).await.unwrap();
        assert_eq!(
            (found.info.status, found.info.pid),
            (ProcessStatus::Exited, None)
        );
        let mut late = fixture
            .host
            .attach_lossless(&id, &found.info.id, Replay::None)
            .await
            .unwrap();
        assert!(
            matches!(late.next_event().await, Some(AttachEvent::Exited(exit)) if exit.code == Some(7))
        );
        let mut late = fixture
            .host
            .attach_lossless(&id, &found.info.id, Replay::All)
            .await
            .unwrap();
        assert_eq!(all(&mut late).await.0, b"up\ngot this\n");
        assert!(
            fixture
                .host
                .running_processes(&id)
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            fixture
                .host
                .process_by_pid(&id, 99_999_999)
                .await
                .unwrap_err()
                .code(),
            ErrorCode::ProcessNotFound
        );
    })
}

pub(crate) fn wall_time_of_a_process_stops_while_paused(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let resources = Resources {
            wall_time: Some(Duration::from_millis(300)),
            ..Resources::default()
        };
        let spec = ProcessSpec {
            resources,
            ..script("sleep 1000 & echo up; wait")
        };
        if fixture.host.pause_session(&id).await.is_ok() {
            fixture.host.resume_session(&id).await.unwrap();
            let mut paused = fixture.attached(&id, spec.clone()).await;
            fixture.host.pause_session(&id).await.unwrap();
            let told = tokio::time::timeout(Duration::from_millis(600), async {
                while !matches!(paused.next_event().await, Some(AttachEvent::Exited(_))) {}
            });
            assert!(told.await.is_err(), "it ended while it stood still");
            fixture.host.resume_session(&id).await.unwrap();
            while !matches!(paused.next_event().await, Some(AttachEvent::Exited(_))) {}
            assert!(paused.timed_out());
        }
        let mut late = fixture.attached(&id, spec).await;
        let (_, _, exit) = all(&mut late).await;
        assert!(late.timed_out());
        assert_eq!(
            (exit.signal, exit.reason.as_deref()),
            (
                Some(SIGKILL),
                Some("stopped: exceeded its wall time of 300ms")
            )
        );
    })
}

pub(crate) fn slow_lossless_reader_misses_nothing_in_bounded_memory(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        // A gibibyte at full length; always more than the host may grow by.
        let all = sandbar_testing::scaled(1 << 30, 128 << 20);
        let id = fixture.machine("s").await;
        let mut reader = fixture
            .attached(&id, script(&format!("head -c {all} /dev/zero")))
            .await;
        let before = resident();
        let (mut told, mut most) = (0, 0);
        while let Some(AttachEvent::Stdout(bytes)) = reader.next_event().await {
            told += bytes.len() as u64;
            most = most.max(resident());
            // Slower than the writer.
            tokio::task::yield_now().await;
        }
        assert_eq!(told, all);
        assert!(
            most < before + (32 << 20),
            "the host grew from {before} to {most} bytes"
        );
    })
}

/// Bytes of memory this process, and so the host, has now.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

pub(crate) fn exited_ephemeral_processes_are_kept_up_to_a_limit(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let mut pids = Vec::new();
        for number in 0..102 {
            let mut attachment = fixture
                .attached(&id, script(&format!("echo {number}")))
                .await;
            pids.push(attachment.process().pid.unwrap());
            assert_eq!(
                all(&mut attachment).await.0,
                format!("{number}\n").into_bytes()
            );
        }
        // The last one was launched before it was counted among those that have exited.
        let kept = fixture.host.list_processes(&id).await.unwrap();
        assert_eq!(kept.len(), 101);
        assert!(kept.iter().all(|info| info.status == ProcessStatus::Exited));
        assert_eq!(
            fixture
                .host
                .process_by_pid(&id, pids[0])
                .await
                .unwrap_err()
                .code(),
            ErrorCode::ProcessNotFound
        );
        let second = fixture.host.process_by_pid(&id, pids[1]).await.unwrap();
        let mut late = fixture
            .host
            .attach_lossless(&id, &second.info.id, Replay::All)
            .await
            .unwrap();
        assert_eq!(all(&mut late).await.0, b"1\n");
    })
}

pub(crate) fn ephemeral_process_is_persisted_after_a_second(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let short = fixture
            .attached(&id, script("true"))
            .await
            .process()
            .id
            .clone();
        fixture.exited(&id, &short).await;
        let long = fixture
            .attached(&id, script("sleep 1000"))
            .await
            .process()
            .id
            .clone();
        // Looked at from outside: the host itself knows both.
        let database = fixture.config.data_dir.join("state.db");
        let known = async || {
            let database = Connection::open(&database).unwrap();
            let ids: Option<String> = database
                .query_one("SELECT group_concat(id) FROM process", [], |row| row.get(0))
                .unwrap();
            (ids.as_deref() == Some(long.as_str())).then_some(())
        };
        fixture
            .eventually("the process is written down", known)
            .await;
        fixture.restart().await;
        let listed = fixture.host.list_processes(&id).await.unwrap();
        assert_eq!(
            listed.iter().map(|info| &info.id).collect::<Vec<_>>(),
            [&long]
        );
        assert_eq!(listed[0].status, ProcessStatus::Exited);
        let mut late = fixture
            .host
            .attach_lossless(&id, &long, Replay::All)
            .await
            .unwrap();
        assert!(matches!(
            late.next_event().await,
            Some(AttachEvent::Exited(_))
        ));
    })
}
