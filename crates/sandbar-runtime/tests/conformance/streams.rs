//! Standard streams of a command.

use std::time::Duration;

use bytes::Bytes;
use sandbar_core::{ByteCount, ErrorCode, RuntimeKind};
use sandbar_runtime::{ExecEvent, ExecSpec, RunningCommand, StdinMode};

use crate::{
    test_box::Ended,
    world::{World, shell},
};

fn piped(spec: ExecSpec) -> ExecSpec {
    ExecSpec {
        stdin: StdinMode::Piped,
        ..spec
    }
}

fn with_output(spec: ExecSpec, limit: u64) -> ExecSpec {
    let mut spec = spec;
    spec.resources.output = Some(ByteCount(limit));
    spec
}

pub(crate) fn streams_are_separate_and_exit_is_the_last_event(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = world
            .finish(shell("echo to-out; echo to-err >&2; exit 7"))
            .await;
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("to-out\n", "to-err\n")
        );
        assert_eq!((ended.status.code, ended.status.signal), (Some(7), None));
        assert!(!ended.status.timed_out && !ended.status.truncated && !ended.status.oom_killed);
    });
}

pub(crate) fn both_streams_flow_concurrently(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let flood = "head -c 4000000 /dev/zero";
        let ended = world
            .finish(shell(&format!("{flood} & {flood} >&2; wait")))
            .await;
        assert_eq!(
            (ended.stdout.len(), ended.stderr.len()),
            (4_000_000, 4_000_000)
        );
    });
}

pub(crate) fn every_byte_passes_unchanged_both_ways(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut command = world.start(piped(ExecSpec::new(["cat"]))).await.unwrap();
        let stdin = command.stdin().unwrap();
        let sent: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        stdin.write(Bytes::from(sent.clone())).await.unwrap();
        stdin.close();
        let mut received = Vec::new();
        while let Some(event) = command.next_event().await {
            match event {
                ExecEvent::Stdout(bytes) => received.extend_from_slice(&bytes),
                ExecEvent::Stderr(bytes) => panic!("{bytes:?}"),
                ExecEvent::Exited(status) => assert_eq!(status.code, Some(0)),
            }
        }
        assert!(sent == received);
    });
}

pub(crate) fn stdin_is_read_to_its_end(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world.start(piped(ExecSpec::new(["cat"]))).await.unwrap();
        let stdin = command.stdin().unwrap();
        let payload: Vec<u8> = (0..300_000u32)
            .map(|n| b'a' + u8::try_from(n % 26).unwrap())
            .collect();
        let expected = String::from_utf8(payload.clone()).unwrap();
        let feeder = tokio::spawn(async move {
            for chunk in payload.chunks(10_000) {
                stdin.write(Bytes::copy_from_slice(chunk)).await.unwrap();
            }
            stdin.close();
            assert_eq!(
                stdin
                    .write(Bytes::from_static(b"x"))
                    .await
                    .unwrap_err()
                    .code(),
                ErrorCode::InvalidState
            );
        });
        let ended = Ended::of(command).await;
        feeder.await.unwrap();
        assert_eq!(
            (ended.stdout.len(), ended.status.code),
            (expected.len(), Some(0))
        );
        assert_eq!(ended.stdout, expected);
    });
}

pub(crate) fn large_stdin_arrives_complete(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(piped(ExecSpec::new(["wc", "-c"])))
            .await
            .unwrap();
        let stdin = command.stdin().unwrap();
        let feeder = tokio::spawn(async move {
            let block = Bytes::from(vec![b'x'; 1_000_000]);
            for _ in 0..30 {
                stdin.write(block.clone()).await.unwrap();
            }
            stdin.close();
        });
        let ended = Ended::of(command).await;
        feeder.await.unwrap();
        assert_eq!(ended.stdout, "30000000\n");
    });
}

pub(crate) fn command_without_stdin_reads_end_of_file(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = world.finish(shell("cat; echo done")).await;
        assert_eq!(ended.stdout, "done\n");
    });
}

pub(crate) fn command_that_ignores_stdin_can_end(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(piped(shell("read line; exec <&-; echo $line")))
            .await
            .unwrap();
        let stdin = command.stdin().unwrap();
        let feeder = tokio::spawn(async move {
            stdin.write(Bytes::from_static(b"first\n")).await.unwrap();
            let block = Bytes::from(vec![b'x'; 100_000]);
            // More than all buffers on the way hold, so writing stops once there is no reader.
            loop {
                if let Err(error) = stdin.write(block.clone()).await {
                    return error;
                }
            }
        });
        let ended = Ended::of(command).await;
        assert_eq!(
            (ended.stdout.as_str(), ended.status.code),
            ("first\n", Some(0))
        );
        assert_eq!(feeder.await.unwrap().code(), ErrorCode::InvalidState);
    });
}

/// Reads and discards all output.
async fn drain(mut command: RunningCommand) -> (u64, Option<i32>) {
    let mut received = 0;
    loop {
        match command.next_event().await {
            Some(ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes)) => {
                received += bytes.len() as u64;
            }
            Some(ExecEvent::Exited(status)) => return (received, status.code),
            None => panic!("no exit came"),
        }
    }
}

/// The most memory this process has had at a time, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

pub(crate) fn hundred_megabytes_pass_in_bounded_memory(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let flood = |bytes: &str| {
            with_output(
                ExecSpec::new(["head", "-c", bytes, "/dev/zero"]),
                200_000_000,
            )
        };
        // What one command needs anyway is not counted.
        assert_eq!(
            drain(world.start(flood("1000000")).await.unwrap()).await,
            (1_000_000, Some(0))
        );
        let before = peak_memory();
        assert_eq!(
            drain(world.start(flood("100000000")).await.unwrap()).await,
            (100_000_000, Some(0))
        );
        let grown = peak_memory().saturating_sub(before);
        assert!(grown < 16 * 1024, "the host grew by {grown} KiB");
    });
}

pub(crate) fn output_beyond_limit_is_truncated_and_reported(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = shell("head -c 300000 /dev/zero | tr '\\0' x; echo small >&2");
        let ended = world.finish(with_output(script.clone(), 100_000)).await;
        assert_eq!(
            (ended.stdout.len(), ended.stderr.as_str()),
            (100_000, "small\n")
        );
        assert!(ended.status.truncated);
        assert_eq!(ended.status.code, Some(0));
        let ended = world.finish(with_output(script, 300_000)).await;
        assert_eq!(
            (ended.stdout.len(), ended.status.truncated),
            (300_000, false)
        );
    });
}

pub(crate) fn flood_beyond_limit_does_not_block_the_exit(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let flood = shell("head -c 20000000 /dev/zero; echo written > /workspace/flag; exit 9");
        let ended = world.finish(with_output(flood, 10)).await;
        assert_eq!((ended.stdout.len(), ended.status.code), (10, Some(9)));
        assert!(ended.status.truncated && world.path_inside("workspace/flag").exists());

        let mut endless = with_output(ExecSpec::new(["yes"]), 100);
        endless.resources.wall_time = Some(Duration::from_millis(300));
        let ended = world.finish(endless).await;
        assert_eq!((ended.stdout.len(), ended.status.signal), (100, Some(9)));
        assert!(ended.status.truncated && ended.status.timed_out);
    });
}

/// Writes blocks of 64 KiB and counts them in a file.
const COUNTING_WRITER: &str = r#"
    open(my $count, ">", "/workspace/count");
    for (1..500) {
        # Not every kernel takes all of a block at once.
        for (my $left = 65536; $left > 0;) { $left -= syswrite(STDOUT, "x" x $left) || die }
        syswrite($count, ".");
    }
"#;

pub(crate) fn slow_reader_applies_back_pressure_without_loss(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let writer = with_output(ExecSpec::new(["perl", "-e", COUNTING_WRITER]), 100_000_000);
        let command = world.start(writer).await.unwrap();
        let written = || {
            std::fs::metadata(world.path_inside("workspace/count")).map_or(0, |count| count.len())
        };
        // The output is not read, and the writer can only wait for the stream: if it sleeps and
        // its block count stays the same, it is blocked by back-pressure.
        let stat = format!("/proc/{}/stat", command.pid);
        let mut standing = (0, 0);
        World::wait_for("the writer to stand still", async || {
            let asleep = world
                .finish(ExecSpec::new(["cat", &stat]))
                .await
                .stdout
                .contains(") S ");
            let now = written();
            // Far less than it wants to write can be on its way.
            assert!(
                now < 32,
                "{now} blocks of 500 were accepted without a reader"
            );
            standing = if asleep && now > 0 && now == standing.0 {
                (now, standing.1 + 1)
            } else {
                (now, 0)
            };
            standing.1 == 20
        })
        .await;
        assert_eq!(drain(command).await, (500 * 65536, Some(0)));
        assert_eq!(written(), 500);
    });
}
