//! Commands with a terminal.

use bytes::Bytes;
use sandbar_core::{ByteCount, ErrorCode, RuntimeKind};
use sandbar_runtime::{ExecEvent, ExecSpec, ExitStatus, RunningCommand, StdinMode, TerminalSize};

use crate::{
    test_box::TestBox,
    world::{World, shell},
};

const SIZE: TerminalSize = TerminalSize {
    rows: 33,
    columns: 111,
};

fn on_terminal(spec: ExecSpec) -> ExecSpec {
    ExecSpec {
        stdin: StdinMode::Piped,
        terminal: Some(SIZE),
        ..spec
    }
}

/// Interactive user of a terminal.
struct Typist {
    command: RunningCommand,
    shown: String,
}

impl Typist {
    async fn start(test_box: &TestBox, spec: ExecSpec) -> Self {
        Self {
            command: test_box.start(on_terminal(spec)).await.unwrap(),
            shown: String::new(),
        }
    }

    async fn types(&self, text: &'static str) {
        self.command
            .stdin()
            .unwrap()
            .write(Bytes::from_static(text.as_bytes()))
            .await
            .unwrap();
    }

    /// Waits until the terminal shows this, and takes everything up to there.
    async fn sees(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                return self.shown.drain(..at + text.len()).collect();
            }
            match self.command.next_event().await {
                Some(ExecEvent::Stdout(bytes)) => {
                    self.shown.push_str(std::str::from_utf8(&bytes).unwrap());
                }
                event => panic!(
                    "waiting for {text:?} with {:?} shown, came {event:?}",
                    self.shown
                ),
            }
        }
    }

    /// Everything until the end.
    async fn finish(mut self) -> (String, ExitStatus) {
        loop {
            match self.command.next_event().await {
                Some(ExecEvent::Stdout(bytes)) => {
                    self.shown.push_str(std::str::from_utf8(&bytes).unwrap());
                }
                Some(ExecEvent::Exited(status)) => return (self.shown, status),
                event => panic!("{event:?}"),
            }
        }
    }
}

pub(crate) fn streams_are_a_terminal_of_the_requested_size(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "for stream in 0 1 2; do test -t $stream || echo $stream is not a terminal; done; stty size; \
                      echo to-err >&2; test \"$(tty)\" = \"$(readlink /proc/$$/fd/1)\" && echo named";
        let typist = Typist::start(world, shell(script)).await;
        let (shown, status) = typist.finish().await;
        assert_eq!(
            (shown.as_str(), status.code),
            ("33 111\r\nto-err\r\nnamed\r\n", Some(0))
        );
        if kind == RuntimeKind::Gvisor {
            // It knows no `/dev/tty`, and does not tell whose terminal it is.
            return;
        }
        let (_, status) = Typist::start(world, shell(": > /dev/tty"))
            .await
            .finish()
            .await;
        assert_eq!(status.code, Some(0));
        // pid, name, state, parent, group, session, terminal.
        let typist = Typist::start(world, shell("read stat < /proc/$$/stat; echo $stat")).await;
        let (shown, _) = typist.finish().await;
        let fields: Vec<&str> = shown.split_whitespace().collect();
        assert_eq!((fields[4], fields[5]), (fields[0], fields[0]));
        assert_ne!(fields[6], "0", "it controls the session");
    });
}

pub(crate) fn resize_sends_sigwinch_to_the_command(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // A trap cuts `wait` short.
        let script = "trap 'stty size' WINCH; sleep 4848.1 & echo ready; while :; do wait; done";
        let mut typist = Typist::start(world, shell(script)).await;
        typist.sees("ready\r\n").await;
        for (rows, columns) in [(10, 20), (1, 1), (500, 500)] {
            typist
                .command
                .resize(TerminalSize { rows, columns })
                .unwrap();
            typist.sees(&format!("{rows} {columns}\r\n")).await;
        }
        drop(typist);
        world.wait_until_gone("4848.1").await;
    });
}

pub(crate) fn resize_takes_effect_before_later_input(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut typist = Typist::start(
            world,
            shell("stty -echo; echo ready; while read line; do stty size; done"),
        )
        .await;
        typist.sees("ready\r\n").await;
        for columns in 1..=100 {
            typist
                .command
                .resize(TerminalSize { rows: 5, columns })
                .unwrap();
            typist.types("\n").await;
            assert_eq!(typist.sees("\n").await, format!("5 {columns}\r\n"));
        }
    });
}

pub(crate) fn resize_without_terminal_is_rejected(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(ExecSpec::new(["sleep", "4848.2"]))
            .await
            .unwrap();
        assert_eq!(
            command.resize(SIZE).unwrap_err().code(),
            ErrorCode::InvalidState
        );
        assert_eq!(
            world
                .finish(shell("test -t 0 || test -t 1 || test -t 2 || tty"))
                .await
                .stdout,
            "not a tty\n"
        );
    });
}

pub(crate) fn control_c_interrupts_the_foreground_process(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let typist = Typist::start(world, ExecSpec::new(["sleep", "4848.3"])).await;
        world.wait_until_runs("sleep\x004848.3").await;
        typist.types("\x03").await;
        let (shown, status) = typist.finish().await;
        assert_eq!((shown.as_str(), status.signal), ("^C", Some(2)));

        let script = "trap 'echo caught; exit 5' INT; sleep 4848.8 & echo ready; wait";
        let mut typist = Typist::start(world, shell(script)).await;
        typist.sees("ready\r\n").await;
        typist.types("\x03").await;
        let (shown, status) = typist.finish().await;
        assert_eq!((shown.as_str(), status.code), ("^Ccaught\r\n", Some(5)));
    });
}

pub(crate) fn interactive_shell_answers_input(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = ExecSpec::new(["sh", "-i"]);
        spec.env.insert("PS1".into(), "ask> ".into());
        let mut typist = Typist::start(world, spec).await;
        typist.sees("ask> ").await;
        typist.types("echo $((6 * 7))\n").await;
        // What is typed is shown too.
        typist.sees("echo $((6 * 7))\r\n42\r\nask> ").await;
        typist.types("sleep 4848.4\n").await;
        world.wait_until_runs("sleep\x004848.4").await;
        // Only the job is interrupted, since the shell gave it a group of its own.
        typist.types("\x03").await;
        typist.sees("ask> ").await;
        typist.types("exit 4\n").await;
        assert_eq!(typist.finish().await.1.code, Some(4));
    });
}

pub(crate) fn terminal_output_is_complete_at_exit(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let expected: String = (1..=5000)
            .flat_map(|number| [number.to_string(), "\r\n".to_owned()])
            .collect();
        for _ in 0..5 {
            let (shown, status) = Typist::start(world, ExecSpec::new(["seq", "1", "5000"]))
                .await
                .finish()
                .await;
            assert_eq!((shown.len(), status.code), (expected.len(), Some(0)));
            assert!(shown == expected && !status.truncated);
        }
    });
}

// Not on gVisor: it knows no `/dev/tty`.
#[test]
fn a_terminal_that_is_opened_again_by_name_goes_on_on_native() {
    a_terminal_that_is_opened_again_by_name_goes_on(RuntimeKind::Native);
}

#[test]
fn a_terminal_that_is_opened_again_by_name_goes_on_on_none() {
    a_terminal_that_is_opened_again_by_name_goes_on(RuntimeKind::None);
}

fn a_terminal_that_is_opened_again_by_name_goes_on(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // Output is not read until the file exists; by then there is more than a terminal buffers.
        let script = "echo first; exec <&- >&- 2>&-; until test -e go; do sleep 0.01; done; \
                      seq 1 3000 >/dev/tty; exec </dev/tty; read line; echo got $line >/dev/tty";
        let mut typist = Typist::start(world, shell(script)).await;
        typist.sees("first\r\n").await;
        std::fs::write(world.path_inside("workspace/go"), "").unwrap();
        typist.sees("\r\n3000\r\n").await;
        typist.types("this\r").await;
        let (shown, status) = typist.finish().await;
        assert_eq!(
            (shown.as_str(), status.code),
            ("this\r\ngot this\r\n", Some(0))
        );
    });
}

pub(crate) fn unread_terminal_blocks_without_loss(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = on_terminal(ExecSpec::new(["seq", "1", "300000"]));
        spec.resources.output = Some(ByteCount::mib(100));
        let command = world.start(spec).await.unwrap();
        // Other commands go on meanwhile.
        for _ in 0..20 {
            assert_eq!(
                world.finish(ExecSpec::new(["true"])).await.status.code,
                Some(0)
            );
        }
        if kind != RuntimeKind::Gvisor {
            // Terminals of gVisor buffer without limit.
            assert_eq!(world.count("seq\x001\x00300000").await, 1);
        }
        let (shown, status) = Typist {
            command,
            shown: String::new(),
        }
        .finish()
        .await;
        assert_eq!((shown.lines().count(), status.code), (300_000, Some(0)));
        assert!(shown.ends_with("299999\r\n300000\r\n"));
    });
}

pub(crate) fn flooded_terminal_blocks_no_other_command(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = on_terminal(ExecSpec::new(["yes", "flood"]));
        spec.resources.output = Some(ByteCount(1000));
        let command = world.start(spec).await.unwrap();
        // Beyond its limit everything it shows is dropped as fast as it comes.
        let flooded = tokio::spawn(
            Typist {
                command,
                shown: String::new(),
            }
            .finish(),
        );
        for _ in 0..20 {
            assert_eq!(
                world.finish(ExecSpec::new(["true"])).await.status.code,
                Some(0)
            );
        }
        assert_eq!(world.count("yes\0flood").await, 1);
        world.stop().await;
        let (shown, status) = flooded.await.unwrap();
        assert!(shown.len() == 1000 && status.truncated);
    });
}

// Not on gVisor: it takes the key for the end of input for nothing when a line is empty, and has no
// other way to tell it.
#[test]
fn the_end_of_stdin_is_the_end_of_what_is_typed_on_native() {
    the_end_of_stdin_is_the_end_of_what_is_typed(RuntimeKind::Native);
}

#[test]
fn the_end_of_stdin_is_the_end_of_what_is_typed_on_none() {
    the_end_of_stdin_is_the_end_of_what_is_typed(RuntimeKind::None);
}

fn the_end_of_stdin_is_the_end_of_what_is_typed(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let nothing: &[&'static str] = &[];
        for (typed, expected) in [
            (nothing, ""),
            (&["one\n"], "one\r\none\r\n"),
            // In the middle of a line.
            (&["one\ntw", "o"], "one\r\ntwoone\r\ntwo"),
        ] {
            let typist = Typist::start(world, ExecSpec::new(["cat"])).await;
            for text in typed {
                typist.types(text).await;
            }
            typist.command.stdin().unwrap().close();
            let (shown, status) = typist.finish().await;
            let sorted = |text: &str| {
                let mut letters: Vec<char> = text.chars().collect();
                letters.sort_unstable();
                letters
            };
            // The echo and what `cat` writes may mix.
            assert_eq!(
                (sorted(&shown), status.code),
                (sorted(expected), Some(0)),
                "{typed:?}"
            );
        }
    });
}

pub(crate) fn terminal_without_stdin_reads_end_of_file(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let spec = ExecSpec {
            stdin: StdinMode::Null,
            ..on_terminal(shell("cat; echo done"))
        };
        let command = world.start(spec).await.unwrap();
        let (shown, status) = Typist {
            command,
            shown: String::new(),
        }
        .finish()
        .await;
        assert_eq!((shown.as_str(), status.code), ("done\r\n", Some(0)));
    });
}

pub(crate) fn dropped_command_kills_everything_on_its_terminal(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "trap '' HUP; sleep 4848.5 & setsid sleep 4848.6 & echo ready; cat";
        let mut typist = Typist::start(world, shell(script)).await;
        typist.sees("ready\r\n").await;
        for daemon in ["sleep\x004848.5", "sleep\x004848.6"] {
            world.wait_until_runs(daemon).await;
        }
        drop(typist);
        for process in ["4848.5", "4848.6", "cat\0"] {
            world.wait_until_gone(process).await;
        }
    });
}

pub(crate) fn daemon_on_the_terminal_does_not_delay_exit(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "trap '' HUP; setsid sleep 4848.7 & echo started";
        let (shown, status) = Typist::start(world, shell(script)).await.finish().await;
        assert_eq!((shown.as_str(), status.code), ("started\r\n", Some(0)));
        world.wait_until_runs("sleep\x004848.7").await;
        world.stop().await;
        assert_eq!(world.count("sleep\x004848.7").await, 0);
    });
}
