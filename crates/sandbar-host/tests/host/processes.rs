//! Long-running processes of a session.

use std::{pin::Pin, time::Duration};

use sandbar_core::{
    ErrorCode, ForkRequest, LaterSnapshots, LogQuery, LogStream, ProcessId, ProcessInfo,
    ProcessSpec, ProcessStatus, Readiness, RestartPolicy, SessionId, SessionState, StdinMode,
    TerminalSize, WaitFor,
};

use crate::{
    fixture::{HostFixture, snap, spec},
    recovery::meanwhile,
};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Goes on until it is ended.
const ENDLESS: &str = "while :; do sleep 1000; done";

pub(crate) fn script(script: &str) -> ProcessSpec {
    ProcessSpec::new(["/bin/sh", "-c", script])
}

pub(crate) fn log(text: &str) -> Readiness {
    Readiness::Log { text: text.into() }
}

impl HostFixture {
    pub(crate) async fn launch(&self, id: &SessionId, spec: ProcessSpec) -> ProcessId {
        let info = self.host.launch_process(id, spec).await.unwrap();
        assert_eq!(info.status, ProcessStatus::Starting);
        info.id
    }

    pub(crate) async fn ready(&self, id: &SessionId, process: &ProcessId) -> ProcessInfo {
        self.host
            .wait_process(id, process, WaitFor::Ready)
            .await
            .unwrap()
    }

    pub(crate) async fn exited(&self, id: &SessionId, process: &ProcessId) -> ProcessInfo {
        self.host
            .wait_process(id, process, WaitFor::Exited)
            .await
            .unwrap()
    }

    pub(crate) async fn status(&self, id: &SessionId, process: &ProcessId) -> ProcessStatus {
        self.host
            .get_process_status(id, process)
            .await
            .unwrap()
            .status
    }

    /// All a query gives, as text.
    async fn logs(&self, id: &SessionId, process: &ProcessId, query: LogQuery) -> String {
        let mut logs = self.host.process_logs(id, process, query).await.unwrap();
        let mut text = Vec::new();
        while let Some(chunk) = logs.next().await {
            text.extend_from_slice(&chunk.bytes);
        }
        String::from_utf8(text).unwrap()
    }
}

fn reason(info: &ProcessInfo) -> Option<&str> {
    info.exit.as_ref().unwrap().reason.as_deref()
}

pub(crate) fn killed_process_reports_its_exit(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let mut spec = script(&format!("env; pwd; echo up; {ENDLESS}"));
        spec.env.insert("GIVEN".into(), "by the call".into());
        spec.cwd = Some("/".into());
        spec.ready = log("up");
        let process = fixture.launch(&id, spec).await;
        let info = fixture.ready(&id, &process).await;
        assert_eq!(
            (info.status, info.exit.as_ref(), info.restarts),
            (ProcessStatus::Running, None, 0)
        );
        assert!(info.pid.is_some() && info.ready_at.is_some());
        assert_eq!(fixture.host.list_processes(&id).await.unwrap(), [info]);
        let said = fixture.logs(&id, &process, LogQuery::default()).await;
        assert!(
            said.contains("GIVEN=by the call\n") && said.contains("\n/\nup\n"),
            "{said}"
        );
        // The environment of this test, and so of the host, has many more.
        assert!(
            !said.contains("CARGO") && !said.contains("NEXTEST"),
            "{said}"
        );

        fixture
            .host
            .kill_process(&id, &process, SIGTERM)
            .await
            .unwrap();
        let info = fixture.exited(&id, &process).await;
        let exit = info.exit.clone().unwrap();
        assert_eq!(
            (exit.code, exit.signal, exit.reason.as_deref()),
            (None, Some(SIGTERM), Some("killed"))
        );
        assert_eq!(info.pid, None);
        // A second kill changes nothing, and later callers get the same state.
        assert_eq!(
            fixture
                .host
                .kill_process(&id, &process, SIGKILL)
                .await
                .unwrap(),
            info
        );
        assert_eq!(fixture.exited(&id, &process).await, info);

        let by_itself = fixture.launch(&id, script("exit 3")).await;
        let info = fixture.exited(&id, &by_itself).await;
        assert_eq!(
            (info.exit.as_ref().unwrap().code, reason(&info)),
            (Some(3), None)
        );
    })
}

pub(crate) fn invalid_process_operations_are_refused(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let missing = fixture
            .host
            .launch_process(&id, ProcessSpec::new(["no-such-program"]))
            .await
            .unwrap_err();
        assert_eq!(
            (missing.code(), missing.field()),
            (ErrorCode::FileNotFound, Some("argv"))
        );
        let unknown_user = ProcessSpec {
            user: Some("unknown-user".into()),
            ..script("true")
        };
        assert_eq!(
            fixture
                .host
                .launch_process(&id, unknown_user)
                .await
                .unwrap_err()
                .field(),
            Some("user")
        );
        assert_eq!(fixture.host.list_processes(&id).await.unwrap(), []);

        let process = fixture.launch(&id, script(ENDLESS)).await;
        let unknown: ProcessId = "p-unknown".parse().unwrap();
        let error = fixture
            .host
            .kill_process(&id, &unknown, SIGTERM)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProcessNotFound);
        assert!(
            error.hint().unwrap().contains(process.as_str()),
            "{:?}",
            error.hint()
        );
        let error = fixture
            .host
            .kill_process(&id, &process, 1000)
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::InvalidArgument, Some("signal"))
        );
        let error = fixture
            .host
            .write_process_stdin(&id, &process, "text".into())
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        let size = TerminalSize {
            rows: 1,
            columns: 1,
        };
        let error = fixture
            .host
            .resize_process(&id, &process, size)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        fixture.host.destroy_session(&id).await.unwrap();
        let error = fixture.host.list_processes(&id).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionNotFound);
    })
}

pub(crate) fn process_that_is_never_ready_is_stopped(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let never = ProcessSpec {
            ready: log("ready"),
            ready_timeout: Duration::from_millis(200),
            restart: RestartPolicy::Always,
            ..script(&format!("echo trying; {ENDLESS}"))
        };
        let process = fixture.launch(&id, never).await;
        let error = fixture
            .host
            .wait_process(&id, &process, WaitFor::Ready)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProcessReadyTimeout);
        assert!(
            error.message().contains("not ready within 200ms"),
            "{error}"
        );
        let info = fixture.exited(&id, &process).await;
        assert_eq!(reason(&info), Some("stopped: not ready within 200ms"));
        assert_eq!((info.restarts, info.ready_at), (0, None));

        let broken = ProcessSpec {
            ready: log("ready"),
            ..script("echo no luck >&2; exit 4")
        };
        let process = fixture.launch(&id, broken).await;
        let error = fixture
            .host
            .wait_process(&id, &process, WaitFor::Ready)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert!(error.message().contains("exited with code 4"), "{error}");
        assert!(
            error.hint().unwrap().contains("no luck"),
            "{:?}",
            error.hint()
        );
    })
}

pub(crate) fn logs_are_bounded_and_can_be_followed(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        const WRITTEN: u64 = 12 << 20;
        let id = fixture.machine("s").await;
        let much = "until test -e go; do :; done; head -c 12582908 /dev/zero; printf 'end\n'; echo done >&2";
        let process = fixture.launch(&id, script(much)).await;
        let follow = LogQuery {
            follow: true,
            ..LogQuery::default()
        };
        let mut follower = fixture
            .host
            .process_logs(&id, &process, follow)
            .await
            .unwrap();
        // Without a reader the process still runs to its end.
        fixture.write(&id, "/workspace/go", "").await;
        assert_eq!(
            fixture.exited(&id, &process).await.exit.unwrap().code,
            Some(0)
        );
        let (mut read, mut missed, mut errors) = (0, 0, Vec::new());
        while let Some(chunk) = follower.next().await {
            match chunk.stream {
                LogStream::Stdout => {
                    assert_eq!(chunk.offset, read + missed + chunk.missed);
                    (read, missed) = (read + chunk.bytes.len() as u64, missed + chunk.missed);
                }
                LogStream::Stderr => errors.extend_from_slice(&chunk.bytes),
            }
        }
        assert_eq!(
            (read + missed, read, &errors[..]),
            (WRITTEN, 1 << 20, &b"done\n"[..])
        );
        let tail = LogQuery {
            stream: Some(LogStream::Stderr),
            tail: Some(1),
            ..LogQuery::default()
        };
        assert_eq!(fixture.logs(&id, &process, tail).await, "done\n");
        // The two streams are pipes of their own: their order among each other is not known.
        let stdout = LogQuery {
            stream: Some(LogStream::Stdout),
            ..LogQuery::default()
        };
        assert!(fixture.logs(&id, &process, stdout).await.ends_with("end\n"));
        let kept = fixture.logs(&id, &process, LogQuery::default()).await;
        assert!(
            kept.contains("done\n") && kept.len() < 2 << 20,
            "{}",
            kept.len()
        );
    })
}

pub(crate) fn kill_ends_everything_the_process_started(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let daemon = format!("setsid sh -c 'echo $$ > daemon; {ENDLESS}' & sleep 1000");
        let process = fixture.launch(&id, script(&daemon)).await;
        let told = async || {
            fixture
                .read(&id, "/workspace/daemon")
                .await
                .filter(|pid| pid.ends_with('\n'))
        };
        let pid = fixture.eventually("the daemon runs", told).await;
        let alive = format!("kill -0 {} 2>/dev/null", pid.trim());
        assert_eq!(fixture.shell(&id, &alive).await.1, Some(0));
        fixture
            .host
            .kill_process(&id, &process, SIGKILL)
            .await
            .unwrap();
        assert_eq!(
            fixture.exited(&id, &process).await.exit.unwrap().signal,
            Some(SIGKILL)
        );
        fixture
            .eventually("the daemon is gone", async || {
                (fixture.shell(&id, &alive).await.1 != Some(0)).then_some(())
            })
            .await;
    })
}

pub(crate) fn process_restarts_by_its_policy(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let failing = ProcessSpec {
            restart: RestartPolicy::OnFailure { at_most: 2 },
            ..script("echo run >> runs; echo run; exit 3")
        };
        let process = fixture.launch(&id, failing).await;
        let info = fixture.exited(&id, &process).await;
        assert_eq!((info.restarts, info.exit.unwrap().code), (2, Some(3)));
        assert_eq!(
            fixture.read(&id, "/workspace/runs").await.unwrap(),
            "run\nrun\nrun\n"
        );
        assert_eq!(
            fixture.logs(&id, &process, LogQuery::default()).await,
            "run\nrun\nrun\n"
        );

        let content = ProcessSpec {
            restart: RestartPolicy::OnFailure { at_most: 2 },
            ..script("true")
        };
        let process = fixture.launch(&id, content).await;
        assert_eq!(fixture.exited(&id, &process).await.restarts, 0);

        let always = ProcessSpec {
            restart: RestartPolicy::Always,
            ..script("true")
        };
        let process = fixture.launch(&id, always).await;
        let status = async || {
            fixture
                .host
                .get_process_status(&id, &process)
                .await
                .unwrap()
        };
        fixture
            .eventually("it is started again", async || {
                (status().await.restarts >= 2).then_some(())
            })
            .await;
        fixture
            .host
            .kill_process(&id, &process, SIGTERM)
            .await
            .unwrap();
        assert_eq!(reason(&fixture.exited(&id, &process).await), Some("killed"));
    })
}

pub(crate) fn process_reads_its_input(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let cat = ProcessSpec {
            stdin: StdinMode::Piped,
            ..ProcessSpec::new(["cat"])
        };
        let process = fixture.launch(&id, cat).await;
        fixture.ready(&id, &process).await;
        fixture
            .host
            .write_process_stdin(&id, &process, "typed\n".into())
            .await
            .unwrap();
        fixture
            .host
            .close_process_stdin(&id, &process)
            .await
            .unwrap();
        assert_eq!(
            fixture.exited(&id, &process).await.exit.unwrap().code,
            Some(0)
        );
        assert_eq!(
            fixture.logs(&id, &process, LogQuery::default()).await,
            "typed\n"
        );

        let terminal = ProcessSpec {
            stdin: StdinMode::Piped,
            terminal: Some(TerminalSize {
                rows: 24,
                columns: 80,
            }),
            ready: log("24 80"),
            ..script("stty size; read line; stty size; echo got $line")
        };
        let process = fixture.launch(&id, terminal).await;
        fixture.ready(&id, &process).await;
        fixture
            .host
            .resize_process(
                &id,
                &process,
                TerminalSize {
                    rows: 50,
                    columns: 100,
                },
            )
            .await
            .unwrap();
        fixture
            .host
            .write_process_stdin(&id, &process, "this\r".into())
            .await
            .unwrap();
        assert_eq!(
            fixture.exited(&id, &process).await.exit.unwrap().code,
            Some(0)
        );
        let said = fixture.logs(&id, &process, LogQuery::default()).await;
        assert!(
            said.contains("50 100") && said.contains("got this"),
            "{said:?}"
        );
    })
}

pub(crate) fn rollback_stops_processes(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        fixture.snapshot(&id, "before").await;
        let always = ProcessSpec {
            restart: RestartPolicy::Always,
            ..script(ENDLESS)
        };
        let process = fixture.launch(&id, always.clone()).await;
        // A process is not kept over files other than those it has opened.
        fixture
            .host
            .rollback_session(&id, &snap("before"), LaterSnapshots::Drop)
            .await
            .unwrap();
        let info = fixture
            .host
            .get_process_status(&id, &process)
            .await
            .unwrap();
        assert_eq!(
            (info.status, reason(&info)),
            (ProcessStatus::Exited, Some("session rolled back"))
        );
        // Also one that is frozen.
        let process = fixture.launch(&id, always).await;
        fixture.ready(&id, &process).await;
        fixture.host.pause_session(&id).await.unwrap();
        fixture
            .host
            .rollback_session(&id, &snap("before"), LaterSnapshots::Drop)
            .await
            .unwrap();
        assert_eq!(fixture.status(&id, &process).await, ProcessStatus::Exited);
        fixture.host.resume_session(&id).await.unwrap();
        let process = fixture.launch(&id, script("true")).await;
        fixture.exited(&id, &process).await;
    })
}

pub(crate) fn pause_freezes_processes(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let spec = ProcessSpec {
            ready: log("up"),
            ..script("echo up; until test -e end; do sleep 0.01; done; exit 7")
        };
        let process = fixture.launch(&id, spec).await;
        fixture.ready(&id, &process).await;
        let failing = ProcessSpec {
            restart: RestartPolicy::Always,
            ..script("echo run >> runs")
        };
        let again = fixture.launch(&id, failing).await;
        fixture
            .eventually("it has run", async || {
                fixture.read(&id, "/workspace/runs").await
            })
            .await;
        fixture.host.pause_session(&id).await.unwrap();
        let runs = fixture.read(&id, "/workspace/runs").await;

        assert_eq!(fixture.status(&id, &process).await, ProcessStatus::Running);
        assert_eq!(fixture.host.list_processes(&id).await.unwrap().len(), 2);
        assert_eq!(
            fixture.logs(&id, &process, LogQuery::default()).await,
            "up\n"
        );
        let refused = [
            fixture
                .host
                .launch_process(&id, script("true"))
                .await
                .unwrap_err(),
            fixture
                .host
                .kill_process(&id, &process, SIGTERM)
                .await
                .unwrap_err(),
            fixture
                .host
                .write_process_stdin(&id, &process, "".into())
                .await
                .unwrap_err(),
        ];
        assert!(
            refused
                .iter()
                .all(|error| error.code() == ErrorCode::SessionPaused),
            "{refused:?}"
        );
        assert_eq!(fixture.read(&id, "/workspace/runs").await, runs);

        fixture.host.resume_session(&id).await.unwrap();
        fixture.write(&id, "/workspace/end", "").await;
        assert_eq!(
            fixture.exited(&id, &process).await.exit.unwrap().code,
            Some(7)
        );
        fixture
            .eventually("it is started again", async || {
                (fixture.read(&id, "/workspace/runs").await != runs).then_some(())
            })
            .await;
        fixture
            .host
            .kill_process(&id, &again, SIGKILL)
            .await
            .unwrap();
    })
}

pub(crate) fn processes_of_an_earlier_host_are_reported_as_exited(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let polite = "trap 'echo bye > said; exit 0' TERM; echo up; while :; do sleep 0.01; done";
        let spec = ProcessSpec {
            ready: log("up"),
            restart: RestartPolicy::Always,
            ..script(polite)
        };
        let stopped = fixture.launch(&id, spec).await;
        fixture.ready(&id, &stopped).await;
        meanwhile(fixture, |_, database| {
            let rude = r"INSERT INTO process (session, id, spec, state) SELECT session, 'p-rude', spec,
                json_set(state, '$.id', 'p-rude', '$.status', 'running', '$.pid', 7, '$.exit', null) FROM process";
            database.execute(rude, []).unwrap();
        })
        .await;
        let listed = fixture.host.list_processes(&id).await.unwrap();
        assert_eq!(
            listed.iter().map(reason).collect::<Vec<_>>(),
            [Some("host stopped"), Some("host restarted")]
        );
        assert!(
            listed
                .iter()
                .all(|info| info.status == ProcessStatus::Exited && info.pid.is_none())
        );
        assert_eq!(listed[0].exit.as_ref().unwrap().code, Some(0));
        assert_eq!(
            fixture.read(&id, "/workspace/said").await.as_deref(),
            Some("bye\n")
        );
        // They can be asked for, and there is nothing to kill, and nothing to read.
        assert_eq!(
            fixture
                .host
                .kill_process(&id, &stopped, SIGTERM)
                .await
                .unwrap(),
            listed[0]
        );
        assert_eq!(fixture.exited(&id, &listed[1].id).await, listed[1]);
        let error = fixture
            .host
            .process_logs(&id, &stopped, LogQuery::default())
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
    })
}

pub(crate) fn oldest_exited_processes_are_forgotten(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let endless = fixture.launch(&id, script(ENDLESS)).await;
        let first = fixture.launch(&id, script("true")).await;
        fixture.exited(&id, &first).await;
        for _ in 0..101 {
            let process = fixture.launch(&id, script("true")).await;
            fixture.exited(&id, &process).await;
        }
        let kept = fixture.host.list_processes(&id).await.unwrap();
        assert_eq!((kept.len(), &kept[0].id), (102, &endless));
        let error = fixture
            .host
            .get_process_status(&id, &first)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProcessNotFound);
    })
}

pub(crate) fn process_restarts_in_a_new_box_after_its_box_died(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let (endless, twice) = (
            ["sleep", "87654.3"],
            RestartPolicy::OnFailure { at_most: 1 },
        );
        let restarted = ProcessSpec {
            restart: twice,
            ..ProcessSpec::new(endless)
        };
        let restarted = fixture.launch(&id, restarted).await;
        let ended = fixture.launch(&id, script(ENDLESS)).await;
        for process in [&restarted, &ended] {
            fixture.ready(&id, process).await;
        }
        kill_the_parent_of("sleep\x0087654.3\0");
        assert_eq!(
            reason(&fixture.exited(&id, &ended).await),
            Some("the box died")
        );
        let status = async || {
            fixture
                .host
                .get_process_status(&id, &restarted)
                .await
                .unwrap()
        };
        let is_back =
            async || Some(status().await).filter(|info| info.restarts == 1 && info.pid.is_some());
        let info = fixture.eventually("it is back", is_back).await;
        assert_eq!(reason(&info), Some("the box died"));
    })
}

/// Ends the init of the box in which a command with these arguments runs, as seen from the host.
fn kill_the_parent_of(arguments: &str) {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            (std::fs::read(entry.path().join("cmdline")).ok()? == arguments.as_bytes())
                .then_some(pid)
        });
    let [pid] = pids.collect::<Vec<_>>()[..] else {
        panic!("one such command runs")
    };
    let of = |pid: i32, field: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .unwrap()
            .trim()
            .to_owned()
    };
    let parent = of(pid, "PPid:").parse().unwrap();
    // It is the first process of a pid namespace, so it cannot belong to another test.
    assert_eq!(
        of(parent, "NSpid:")
            .split_whitespace()
            .skip(1)
            .collect::<Vec<_>>(),
        ["1"]
    );
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(parent).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
}

pub(crate) fn process_does_not_prevent_idle_pause_nor_join_forks(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let mut idle = spec("idle");
        idle.base = "host".parse().unwrap();
        idle.idle_timeout = Some(Duration::from_secs(1));
        let id = fixture.make(idle).await.id;
        let process = fixture.launch(&id, script(ENDLESS)).await;
        let fork = fixture
            .host
            .fork_session(&id, ForkRequest::default())
            .await
            .unwrap()
            .remove(0)
            .id;
        assert_eq!(fixture.host.list_processes(&fork).await.unwrap(), []);
        let state = async || fixture.host.get_session(&id).await.unwrap().state;
        fixture
            .eventually("it is paused", async || {
                (state().await == SessionState::Paused).then_some(())
            })
            .await;
        assert_eq!(fixture.status(&id, &process).await, ProcessStatus::Running);
    })
}
