//! A tmux window with a shell.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::{Signal, set_parent_process_death_signal};
use sandbar_testing::{
    TestServer, eventually, report_skip,
    tree::{Scratch, scratch},
};

use crate::world::binary;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A tmux server for one test, which ends with it. All waits are for contents of the screen.
pub(crate) struct Window {
    socket: String,
    server: Child,
    directory: Scratch,
    /// Number of completion markers typed so far.
    typed: u32,
}

impl Window {
    /// Opens a shell for this host; `None`, with a skip report, without tmux.
    pub(crate) fn open(host: &TestServer, rows: u16, columns: u16) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            report_skip(
                std::thread::current()
                    .name()
                    .unwrap_or("a test on a screen"),
                "tmux is not installed",
            );
            return None;
        }
        let directory = scratch();
        let socket = format!(
            "sandbar-test-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let mut server = Self::tmux(&directory, &socket);
        // In the foreground, as a child that cannot outlive the test.
        server
            .arg("-D")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe {
            server.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let server = server.spawn().unwrap();
        let mut window = Self {
            socket,
            server,
            directory,
            typed: 0,
        };
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let shell = "exec bash --norc --noprofile";
        let arguments = [
            "new-session",
            "-d",
            "-s",
            "main",
            "-x",
            &columns,
            "-y",
            &rows,
            shell,
        ];
        eventually("tmux answers", || window.ask(&arguments).is_ok());
        window.look("the shell is there", |screen| !screen.trim().is_empty());
        window.enter("unset HISTFILE; bind 'set enable-bracketed-paste off'; PS1='$ '");
        window.enter(&format!(
            "export SANDBAR_DATA_DIR={}",
            host.data_dir().display()
        ));
        window.enter(&format!("PATH={}:$PATH", directory_of(binary())));
        window.done();
        window.enter("clear");
        window.look("the screen is empty", |screen| screen.trim() == "$");
        Some(window)
    }

    fn tmux(directory: &Scratch, socket: &str) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", socket, "-f", "/dev/null"]);
        command
            .env_clear()
            .env("TMUX_TMPDIR", directory.path())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color");
        command
            .env("HOME", directory.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    fn ask(&self, arguments: &[&str]) -> io::Result<String> {
        let output = Self::tmux(&self.directory, &self.socket)
            .args(arguments)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }

    /// Returns the contents of the screen.
    pub(crate) fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p", "-N", "-t", "main"])
            .unwrap()
    }

    /// Returns whether a program uses the alternate screen.
    pub(crate) fn is_alternate(&self) -> bool {
        self.ask(&["display-message", "-p", "-t", "main", "#{alternate_on}"])
            .unwrap()
            .trim()
            == "1"
    }

    /// Waits until a program shows this text on the alternate screen.
    #[track_caller]
    pub(crate) fn see_alternate(&self, text: &str) {
        eventually("a program uses the whole screen", || self.is_alternate());
        self.see(text);
    }

    /// Presses a key by its name in tmux: `Enter`, `C-c`, `Up`.
    pub(crate) fn press(&self, key: &str) {
        self.ask(&["send-keys", "-t", "main", key]).unwrap();
    }

    pub(crate) fn write(&self, text: &str) {
        self.ask(&["send-keys", "-t", "main", "-l", text]).unwrap();
    }

    /// Types a line and presses Enter.
    pub(crate) fn enter(&self, line: &str) {
        self.write(line);
        self.press("Enter");
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let (rows, columns) = (rows.to_string(), columns.to_string());
        self.ask(&["resize-window", "-t", "main", "-x", &columns, "-y", &rows])
            .unwrap();
    }

    /// Waits until the screen shows this text.
    #[track_caller]
    pub(crate) fn see(&self, text: &str) {
        self.look(&format!("{text:?} is shown"), |screen| {
            screen.contains(text)
        });
    }

    /// Waits until the screen satisfies `wanted`.
    #[track_caller]
    pub(crate) fn look(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        let mut screen = String::new();
        eventually(what, || {
            screen = self.screen();
            wanted(&screen)
        });
    }

    /// Waits until the last command has ended and returns its exit code.
    #[track_caller]
    pub(crate) fn done(&mut self) -> i32 {
        // Earlier input would go to the running program.
        self.look("the shell asks for the next line", |screen| {
            screen.trim_end().ends_with("\n$") || screen.trim() == "$"
        });
        self.typed += 1;
        // The sum distinguishes the output from the echo.
        self.enter(&format!("echo done-{}-$?-$((20+3))", self.typed));
        let start = format!("done-{}-", self.typed);
        let code = |screen: &str| {
            let line = screen
                .lines()
                .find_map(|line| line.strip_prefix(&start)?.strip_suffix("-23"))?;
            line.parse().ok()
        };
        let mut found = None;
        eventually("the shell answers", || {
            found = code(&self.screen());
            found.is_some()
        });
        found.unwrap()
    }

    /// Notes how the terminal is, to be compared by [`as_before`](Self::as_before).
    pub(crate) fn remember_modes(&mut self) {
        self.enter("modes=$(stty -g)");
        self.done();
    }

    /// Checks that the shell has its terminal back as it was.
    #[track_caller]
    pub(crate) fn as_before(&mut self) {
        assert!(!self.is_alternate(), "{}", self.screen());
        self.enter("[ \"$modes\" = \"$(stty -g)\" ]");
        assert_eq!(
            self.done(),
            0,
            "the modes of the terminal have changed: {}",
            self.screen()
        );
        let cursor = self
            .ask(&["display-message", "-p", "-t", "main", "#{cursor_flag}"])
            .unwrap();
        assert_eq!(cursor.trim(), "1", "the cursor is hidden");
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What a person would look at first.
            let screen = self
                .ask(&["capture-pane", "-p", "-N", "-t", "main"])
                .unwrap_or_default();
            #[expect(clippy::print_stderr, reason = "part of the report of a failed test")]
            {
                eprintln!("the screen showed:\n{screen}");
            }
        }
        let _ = self.ask(&["kill-server"]);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn directory_of(program: &str) -> String {
    program
        .rsplit_once('/')
        .map_or_else(String::new, |(directory, _)| directory.to_owned())
}
