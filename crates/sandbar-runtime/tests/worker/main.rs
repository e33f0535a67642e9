//! Confinement and limits of worker processes, tried by `sandbar-probe`.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::{
    ffi::CString,
    fs,
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    path::Path,
    time::Duration,
};

use sandbar_core::{ByteCount, Error, ErrorCode, Result};
use sandbar_runtime::{JobOrder, JobPart, RunningJob, Workers};
use tempfile::TempDir;

struct Bench {
    workers: Workers,
    scratch: TempDir,
}

impl Bench {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("given/below")).unwrap();
        fs::write(scratch.path().join("given/below/file"), "content").unwrap();
        fs::write(scratch.path().join("beside"), "secret").unwrap();
        std::os::unix::fs::symlink("../../beside", scratch.path().join("given/below/out")).unwrap();
        Self {
            workers: Workers::served_by(env!("CARGO_BIN_EXE_sandbar-probe").into()),
            scratch,
        }
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).to_str().unwrap().to_owned()
    }

    async fn start(&self, request: &str, time: Duration) -> RunningJob {
        let given = fs::File::open(self.path("given")).unwrap();
        let order = JobOrder {
            directories: vec![given.as_fd()],
            descriptors: Vec::new(),
            readable: Vec::new(),
            memory: ByteCount::mib(64),
            time,
        };
        let mut job = self.workers.start(&order).unwrap();
        job.send(request.as_bytes()).await.unwrap();
        job
    }

    async fn run(&self, request: &str) -> Result<String> {
        let mut job = self.start(request, Duration::from_mins(1)).await;
        loop {
            if let JobPart::End(end) = job.next().await? {
                return Ok(String::from_utf8(end).unwrap());
            }
        }
    }

    async fn works(&self) {
        assert_eq!(self.run("read below/file").await.unwrap(), "ok content");
    }
}

fn code(outcome: &Result<String>) -> ErrorCode {
    outcome.as_ref().map_err(Error::code).unwrap_err()
}

#[tokio::test]
async fn job_reads_its_directory_and_nothing_else() {
    let bench = Bench::new();
    bench.works().await;
    let beside = bench.path("beside");
    let file = bench.path("given/below/file");
    for attempt in [
        "read ../beside".to_owned(),
        "read below/out".to_owned(),
        format!("open {beside}"),
        "open /etc/passwd".to_owned(),
        "open /proc/self/environ".to_owned(),
        "list /".to_owned(),
        "create below/new".to_owned(),
        format!("write {file}"),
        format!("remove {file}"),
        format!("rename {file}"),
    ] {
        let answer = bench.run(&attempt).await.unwrap();
        assert!(answer.starts_with("error "), "{attempt}: {answer}");
        assert!(
            answer.contains("denied") || answer.contains("not permitted"),
            "{attempt}: {answer}"
        );
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "content");
}

#[tokio::test]
async fn job_reads_the_paths_of_its_order() {
    let bench = Bench::new();
    let readable = CString::new(Path::new(&bench.path("given")).as_os_str().as_bytes()).unwrap();
    let order = JobOrder {
        directories: Vec::new(),
        descriptors: Vec::new(),
        readable: vec![readable],
        memory: ByteCount::mib(64),
        time: Duration::from_mins(1),
    };
    for (path, allowed) in [("given/below/file", true), ("beside", false)] {
        let mut job = bench.workers.start(&order).unwrap();
        job.send(format!("open {}", bench.path(path)).as_bytes())
            .await
            .unwrap();
        let JobPart::End(end) = job.next().await.unwrap() else {
            panic!("a part before the end")
        };
        assert_eq!(end.starts_with(b"ok"), allowed, "{path}");
    }
}

#[tokio::test]
async fn job_cannot_reach_processes_or_sockets() {
    let bench = Bench::new();
    let here = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for attempt in [
        "fork /bin/true".to_owned(),
        "thread".to_owned(),
        format!("connect {}", here.local_addr().unwrap()),
        "listen".to_owned(),
        format!("unix {}", bench.path("given/socket")),
        "datagram".to_owned(),
        format!("kill {}", std::process::id()),
    ] {
        let answer = bench.run(&attempt).await.unwrap();
        assert!(answer.starts_with("error "), "{attempt}: {answer}");
    }
    bench.works().await;
}

#[tokio::test]
async fn job_that_crashes_ends_alone() {
    let bench = Bench::new();
    for attempt in ["memory", "stack", "panic"] {
        let other = bench.start("silent", Duration::from_mins(1)).await;
        assert_eq!(
            code(&bench.run(attempt).await),
            ErrorCode::Unavailable,
            "{attempt}"
        );
        bench.works().await;
        drop(other);
    }
}

#[tokio::test]
async fn job_beyond_its_time_is_killed() {
    let bench = Bench::new();
    for attempt in ["loop", "silent"] {
        let mut job = bench.start(attempt, Duration::from_millis(200)).await;
        assert_eq!(job.next().await.unwrap_err().code(), ErrorCode::Timeout);
    }
    bench.works().await;
}

#[tokio::test]
async fn parts_arrive_before_the_end() {
    let bench = Bench::new();
    let mut job = bench.start("part", Duration::from_mins(1)).await;
    assert_eq!(job.next().await.unwrap(), JobPart::Part(b"one".to_vec()));
    assert_eq!(job.next().await.unwrap(), JobPart::Part(b"two".to_vec()));
    assert_eq!(job.next().await.unwrap(), JobPart::End(b"ok ".to_vec()));
}

#[tokio::test]
async fn killed_server_is_replaced() {
    let bench = Bench::new();
    bench.works().await;
    let server = bench.workers.server().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(server).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    bench.works().await;
    assert_ne!(bench.workers.server(), Some(server));
}
