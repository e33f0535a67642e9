//! Commands of one session, without isolation.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    pipe::{PipeFlags, pipe_with},
};
use sandbar_core::{ByteCount, Error, ErrorCode, Result};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::{mpsc, oneshot},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ExecEvent, ExecSpec, RunningCommand, Sandbox, SandboxStats, StdinHandle, StdinMode, TerminalSize,
    cgroup::Group,
    command::Control,
    environment::{Invocation, text},
    output::OutputStream,
    spawn::{self, Launch, SpawnFailure, Stage, StartDirectory},
    supervise::Supervisor,
    tree::{Process, Tree},
};

const DEFAULT_DIRECTORY: &str = "/workspace";
const DEFAULT_OUTPUT: ByteCount = ByteCount::mib(10);

/// What commands see as the file system.
#[derive(Debug)]
pub(super) enum View {
    /// The session's tree, through this mount namespace.
    OwnTree(OwnedFd),
    /// The host's; only the working directory lies below this one.
    HostTree(PathBuf),
}

#[derive(Debug)]
pub(super) struct NoneSandbox {
    /// `None` once the sandbox is stopped. Taken shared by every start, so that none slips through a stop.
    state: std::sync::RwLock<Option<View>>,
    group: Option<Group>,
    next: AtomicU64,
    /// Trees of commands that may still have something running.
    trees: Mutex<Vec<Tree>>,
    stop: CancellationToken,
    supervisors: TaskTracker,
}

impl NoneSandbox {
    pub(super) fn new(view: View, group: Option<Group>) -> Self {
        Self {
            state: std::sync::RwLock::new(Some(view)),
            group,
            next: AtomicU64::new(1),
            trees: Mutex::default(),
            stop: CancellationToken::new(),
            supervisors: TaskTracker::new(),
        }
    }

    /// Forgets the trees that have ended by themselves.
    fn tidy(&self) {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).retain(|tree| !tree.is_gone());
    }
}

impl Sandbox for NoneSandbox {
    fn exec(&self, spec: ExecSpec) -> Result<RunningCommand> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let view = state.as_ref().ok_or_else(|| Error::new(ErrorCode::InvalidState, "the sandbox has been stopped"))?;
        self.tidy();
        let invocation = Invocation::prepare(&spec.argv, &spec.env)?;
        let cwd = absolute(spec.cwd.as_deref().unwrap_or(DEFAULT_DIRECTORY));
        let directory_path = text("cwd", &cwd)?;
        let io_failed = |error: io::Error| Error::io(format!("start `{}`", spec.argv[0].escape_debug()), error);
        let handle;
        let (mount_namespace, directory) = match view {
            View::OwnTree(namespace) => (Some(namespace.as_fd()), StartDirectory::Path(&directory_path)),
            View::HostTree(root) => {
                handle = open_below(root, &cwd).map_err(|error| bad_directory(&cwd, &error))?;
                (None, StartDirectory::Handle(handle.as_fd()))
            }
        };
        let group = match &self.group {
            Some(group) => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                Some(Arc::new(group.child(&format!("exec-{number}")).map_err(io_failed)?))
            }
            None => None,
        };

        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| io_failed(errno.into()));
        let (stdin_reader, stdin_writer) = match spec.stdin {
            StdinMode::Null => (OwnedFd::from(File::open("/dev/null").map_err(io_failed)?), None),
            StdinMode::Piped => pipe().map(|(reader, writer)| (reader, Some(writer)))?,
        };
        let (stdout_reader, stdout_writer) = pipe()?;
        let (stderr_reader, stderr_writer) = pipe()?;
        let spawned = spawn::spawn(&Launch {
            invocation: &invocation,
            directory,
            mount_namespace,
            cgroup: group.as_deref().map(AsFd::as_fd),
            streams: [stdin_reader.as_fd(), stdout_writer.as_fd(), stderr_writer.as_fd()],
            open_files: spec.resources.open_files,
        });
        let spawned = spawned.map_err(|failure| {
            if let Some(group) = &group {
                let _ = group.remove();
            }
            explain(failure, &spec.argv[0], &cwd)
        })?;

        let tree = group.map_or(Tree::Session(spawned.pid), Tree::Cgroup);
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).push(tree.clone());
        let watched = Watched { pid: spawned.pid, tree };
        watched
            .start(self, &spec, spawned.handle, [stdout_reader, stderr_reader], stdin_writer)
            .inspect_err(|_| watched.tree.kill())
            .map_err(io_failed)
    }

    fn freeze(&self) -> Result<()> {
        Err(Error::new(ErrorCode::InvalidState, "not yet"))
    }

    fn thaw(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<SandboxStats> {
        Ok(SandboxStats::default())
    }

    fn stop(&self) -> Result<()> {
        let view = self.state.write().unwrap_or_else(PoisonError::into_inner).take();
        self.stop.cancel();
        for tree in self.trees.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            tree.kill();
        }
        self.supervisors.close();
        tokio::runtime::Handle::current().block_on(self.supervisors.wait());
        if let Some(group) = &self.group {
            group.end().map_err(|error| Error::io("end the processes of a session", error))?;
        }
        drop(view);
        Ok(())
    }
}

impl Drop for NoneSandbox {
    fn drop(&mut self) {
        self.stop.cancel();
        for tree in self.trees.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            tree.kill();
        }
        if let Some(group) = &self.group {
            let _ = group.end();
        }
    }
}

/// A process that has just been started.
struct Watched {
    pid: u32,
    tree: Tree,
}

impl Watched {
    /// Puts a supervisor beside the process.
    fn start(
        &self,
        sandbox: &NoneSandbox,
        spec: &ExecSpec,
        handle: OwnedFd,
        [stdout, stderr]: [OwnedFd; 2],
        stdin: Option<OwnedFd>,
    ) -> io::Result<RunningCommand> {
        let limit = spec.resources.output.unwrap_or(DEFAULT_OUTPUT).get();
        let process = Arc::new(Process::new(self.pid, handle)?);
        let (event_sender, events) = mpsc::channel(16);
        let (exit_sender, exit) = oneshot::channel();
        let (stdin_handle, stdin) = match stdin {
            Some(pipe) => {
                let (handle, chunks) = StdinHandle::channel();
                (Some(handle), Some((Sender::from_owned_fd(pipe)?, chunks)))
            }
            None => (None, None),
        };
        let supervisor = Supervisor {
            process: Arc::clone(&process),
            tree: self.tree.clone(),
            stdout: OutputStream::new(Receiver::from_owned_fd(stdout)?, ExecEvent::Stdout, limit),
            stderr: OutputStream::new(Receiver::from_owned_fd(stderr)?, ExecEvent::Stderr, limit),
            stdin,
            events: event_sender,
            exit: exit_sender,
            wall_time: spec.resources.wall_time,
            stop: sandbox.stop.clone(),
        };
        sandbox.supervisors.spawn(supervisor.run());
        let control = Arc::new(NoneControl { process, tree: self.tree.clone() });
        Ok(RunningCommand {
            pid: self.pid,
            events,
            exit: Some(exit),
            stdin: stdin_handle,
            process: control,
            held: None,
        })
    }
}

struct NoneControl {
    process: Arc<Process>,
    tree: Tree,
}

impl Control for NoneControl {
    fn signal(&self, signal: i32) -> Result<()> {
        self.process.signal_group(signal)
    }

    fn kill(&self) {
        self.tree.kill();
    }

    fn resize(&self, _: TerminalSize) -> Result<()> {
        Err(Error::new(ErrorCode::InvalidState, "the command has no terminal"))
    }
}

/// The path as seen from the root of the session.
fn absolute(cwd: &str) -> String {
    if cwd.starts_with('/') { cwd.to_owned() } else { format!("{DEFAULT_DIRECTORY}/{cwd}") }
}

fn open_below(root: &Path, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(&root, path, flags, Mode::empty(), resolve) {
            // Something was renamed somewhere while the kernel went through `..`; asked again, it can tell.
            Err(rustix::io::Errno::AGAIN) => {}
            outcome => return Ok(outcome?),
        }
    }
}

fn bad_directory(cwd: &str, error: &io::Error) -> Error {
    Error::invalid("cwd", format!("working directory `{}` cannot be entered: {error}", cwd.escape_debug()))
        .with_hint("give a directory that exists in the session")
}

fn explain(failure: SpawnFailure, program: &str, cwd: &str) -> Error {
    let program = program.escape_debug();
    let kind = failure.cause.raw_os_error();
    match (failure.stage, kind) {
        (Stage::Directory, _) => bad_directory(cwd, &failure.cause),
        (Stage::Exec, Some(libc::ENOENT | libc::ENOTDIR)) => {
            Error::new(ErrorCode::FileNotFound, format!("command `{program}` was not found in the session"))
                .with_field("argv")
                .with_hint("check the name, and `PATH`; a script may also lack its interpreter")
        }
        (Stage::Exec, Some(libc::EACCES | libc::ENOEXEC | libc::EPERM)) => {
            Error::invalid("argv", format!("command `{program}` is not executable"))
                .with_hint("give it execute permission, and make sure it is a program for this machine")
        }
        (Stage::Exec, Some(libc::E2BIG)) => {
            Error::invalid("argv", format!("arguments and environment of `{program}` are too long"))
                .with_hint("pass the data through stdin or a file")
        }
        _ => Error::io(format!("start `{program}`"), failure.cause),
    }
}
