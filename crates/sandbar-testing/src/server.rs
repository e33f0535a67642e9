//! A real `sandbar up` for one test.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use sandbar_core::MutexExt as _;

use crate::tree::{Scratch, scratch};

/// Time for a server to start or stop.
const START_STOP_TIMEOUT: Duration = Duration::from_mins(3);

/// Command line and environment of a server.
#[derive(Clone, Debug)]
pub struct TestServerOptions {
    binary: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

impl TestServerOptions {
    /// `binary` is the program under test.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// `sandbar up` on a data directory, not started yet. It is killed when the test's thread ends.
    pub fn command(&self, data_dir: &Path) -> Command {
        let mut command = client_command(&self.binary, data_dir);
        command
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .args(&self.arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                Ok(rustix::process::set_parent_process_death_signal(Some(
                    Signal::KILL,
                ))?)
            });
        }
        command
    }
}

/// The program under test with nothing of the developer's own settings, pointed at a data
/// directory.
fn client_command(binary: &Path, data_dir: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        let ours = name.to_string_lossy().starts_with("SANDBAR_");
        if ours && name != "SANDBAR_TEST_RUN" {
            command.env_remove(name);
        }
    }
    command
        .env("SANDBAR_DATA_DIR", data_dir)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// A server that listens. It is stopped when it goes out of scope.
#[derive(Debug)]
pub struct TestServer {
    binary: PathBuf,
    data_dir: PathBuf,
    url: String,
    child: Child,
    said: Arc<Mutex<String>>,
    reader: Option<thread::JoinHandle<()>>,
    /// Removed after the server is gone.
    _directory: Option<Scratch>,
}

/// Exit of a server.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    /// Everything it wrote to stderr.
    pub said: String,
}

impl TestServer {
    /// Starts a server on a fresh data directory and waits until it listens.
    pub fn start(options: &TestServerOptions) -> Self {
        let directory = scratch();
        let data_dir = directory.path().to_owned();
        Self::launch(options, &data_dir, Some(directory))
    }

    /// Starts a server on a data directory that outlives it.
    pub fn start_in(options: &TestServerOptions, data_dir: &Path) -> Self {
        Self::launch(options, data_dir, None)
    }

    fn launch(options: &TestServerOptions, data_dir: &Path, directory: Option<Scratch>) -> Self {
        let mut child = options
            .command(data_dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (sender, receiver) = mpsc::channel();
        let reader = thread::spawn({
            let said = Arc::clone(&said);
            move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if let Some(url) = line.strip_prefix("listening on ") {
                        let _ = sender.send(url.to_owned());
                    }
                    let mut said = said.lock_unpoisoned();
                    said.push_str(&line);
                    said.push('\n');
                }
            }
        });
        let Ok(url) = receiver.recv_timeout(START_STOP_TIMEOUT) else {
            let _ = child.kill();
            let _ = child.wait();
            let _ = reader.join();
            panic!("the server did not start: {}", said.lock_unpoisoned());
        };
        let (binary, data_dir) = (options.binary.clone(), data_dir.to_owned());
        Self {
            binary,
            data_dir,
            url,
            child,
            said,
            reader: Some(reader),
            _directory: directory,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The program under test as a client of this server.
    pub fn client(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = client_command(&self.binary, &self.data_dir);
        command.args(arguments);
        command
    }

    /// Everything it has said on stderr so far.
    pub fn said(&self) -> String {
        self.said.lock_unpoisoned().clone()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends a signal and waits for the end.
    pub fn stop_with(mut self, signal: Signal) -> Finished {
        self.signal(signal);
        let status = self.wait().unwrap();
        Finished {
            status,
            said: self.said(),
        }
    }

    /// Waits for the end, and kills the server when it takes too long.
    fn wait(&mut self) -> std::io::Result<ExitStatus> {
        // The pipe closes when the server is gone: that is the event to wait for, not a clock.
        if let Some(reader) = self.reader.take() {
            let (sender, receiver) = mpsc::channel();
            let waiting = thread::spawn(move || {
                let _ = reader.join();
                let _ = sender.send(());
            });
            if receiver.recv_timeout(START_STOP_TIMEOUT).is_err() {
                let _ = self.child.kill();
            }
            let _ = waiting.join();
        }
        self.child.wait()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
        }
        let _ = self.wait();
    }
}
