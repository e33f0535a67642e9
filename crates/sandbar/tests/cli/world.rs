//! A host with one data directory, and what the program says when it is asked.

use std::{
    ffi::OsStr,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use sandbar_testing::{TestServer, TestServerOptions};

/// Result of one run of the program.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn from_output(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Returns stdout of a run that must have succeeded.
    #[track_caller]
    pub(crate) fn data(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Returns stdout without the final line break.
    #[track_caller]
    pub(crate) fn word(self) -> String {
        self.data().trim_end().to_owned()
    }

    /// Checks a failure: empty stdout, and stderr with all `parts`.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {self:?}");
        }
    }
}

/// Runs the program without a host.
pub(crate) fn alone(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Said {
    Said::from_output(alone_command(arguments).output().unwrap())
}

pub(crate) fn alone_command(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1");
    for name in [
        "SANDBAR_URL",
        "SANDBAR_TOKEN",
        "SANDBAR_CONFIG",
        "SANDBAR_DATA_DIR",
    ] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_sandbar")
}

/// Options of a host for most tests: plain directories start fastest, and the runtime `none` works
/// on every machine.
pub(crate) fn options() -> TestServerOptions {
    options_with("local-disk")
}

/// Options of a host with another storage.
pub(crate) fn options_with(storage: &str) -> TestServerOptions {
    TestServerOptions::new(binary())
        .argument("--storage")
        .argument(storage)
        .argument("--runtime")
        .argument("none")
}

/// Host for one test.
pub(crate) struct World {
    pub(crate) server: TestServer,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            server: TestServer::start(&options()),
        }
    }

    /// Runs the program against this host.
    pub(crate) fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Said {
        Said::from_output(self.server.client(arguments).output().unwrap())
    }

    /// Runs the program against this host in a directory of this machine.
    pub(crate) fn run_in(&self, directory: &Path, arguments: &[&str]) -> Said {
        Said::from_output(
            self.server
                .client(arguments)
                .current_dir(directory)
                .output()
                .unwrap(),
        )
    }

    /// Runs the program against this host with `input` on stdin.
    pub(crate) fn run_with(&self, input: &[u8], arguments: &[&str]) -> Said {
        let mut child = self
            .server
            .client(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // The program may exit before it has read everything.
            scope.spawn(move || drop(stdin.write_all(input)));
            Said::from_output(child.wait_with_output().unwrap())
        })
    }

    /// Creates a sandbox with this id.
    pub(crate) fn sandbox(&self, id: &str) {
        assert_eq!(self.run(["new", "--id", id]).word(), id);
    }

    /// Runs a shell command in a sandbox and returns its stdout.
    #[track_caller]
    pub(crate) fn shell(&self, id: &str, line: &str) -> String {
        self.run(["exec", id, "--", "sh", "-c", line]).data()
    }

    /// Returns the ids of all sandboxes.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.run(["ls", "-q"])
            .data()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}
