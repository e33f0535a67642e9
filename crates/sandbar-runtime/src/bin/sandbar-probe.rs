//! Worker for tests: tries what a job must not be able to do, as its request says.

#![expect(
    clippy::disallowed_methods,
    reason = "tries what the confinement must refuse"
)]

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    net::{TcpListener, TcpStream},
    os::{
        fd::AsRawFd as _,
        unix::net::{UnixDatagram, UnixListener},
    },
};

use sandbar_runtime::Job;

fn main() {
    sandbar_runtime::run_worker_role(|mut job| {
        let Ok(Some(request)) = job.receive() else {
            return;
        };
        let request = String::from_utf8_lossy(&request).into_owned();
        let (what, argument) = request.split_once(' ').unwrap_or((&request, ""));
        let answer = match attempt(&mut job, what, argument) {
            Ok(found) => format!("ok {found}"),
            Err(error) => format!("error {error}"),
        };
        let _ = job.end(answer.as_bytes());
    });
}

fn attempt(job: &mut Job, what: &str, argument: &str) -> io::Result<String> {
    let done = || Ok(String::new());
    match what {
        // `argument` is below the job's directory.
        "read" => {
            let directory = job.directories[0].as_raw_fd();
            let mut text = String::new();
            File::open(format!("/proc/self/fd/{directory}/{argument}"))?
                .read_to_string(&mut text)?;
            Ok(text)
        }
        "create" => {
            let directory = job.directories[0].as_raw_fd();
            File::create(format!("/proc/self/fd/{directory}/{argument}")).and(done())
        }
        "write" => OpenOptions::new().append(true).open(argument).and(done()),
        "open" => File::open(argument).and(done()),
        "list" => Ok(std::fs::read_dir(argument)?.count().to_string()),
        "remove" => std::fs::remove_file(argument).and(done()),
        "rename" => std::fs::rename(argument, format!("{argument}.moved")).and(done()),
        "fork" => std::process::Command::new(argument).status().and(done()),
        "thread" => std::thread::Builder::new()
            .spawn(|| ())
            .map(drop)
            .and(done()),
        "connect" => TcpStream::connect(argument).and(done()),
        "listen" => TcpListener::bind("127.0.0.1:0").and(done()),
        "unix" => UnixListener::bind(argument).and(done()),
        "datagram" => UnixDatagram::unbound().and(done()),
        "kill" => {
            let pid = argument
                .parse()
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
            rustix::process::test_kill_process(pid)?;
            done()
        }
        "memory" => Ok(vec![1u8; 1 << 30].len().to_string()),
        "stack" => Ok(deep(u64::MAX).to_string()),
        "panic" => Err(io::Error::other(
            argument
                .parse::<u8>()
                .map_or_else(|_| std::panic::panic_any("as asked"), |_| "a number"),
        )),
        "loop" => loop {
            std::hint::black_box(());
        },
        "part" => {
            job.send(b"one")?;
            job.sender()?.send(b"two")?;
            done()
        }
        "silent" => loop {
            std::thread::park();
        },
        other => Err(io::Error::other(format!("`{other}` is not known"))),
    }
}

#[expect(unconditional_recursion, reason = "overflows the stack, as asked")]
fn deep(left: u64) -> u64 {
    let room = [left; 64];
    std::hint::black_box(&room);
    deep(left - 1) + room[1]
}
