//! Running `zfs` and `zpool`, without a shell, and classifying their errors.

use std::{
    env,
    ffi::OsStr,
    fmt, io,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread::sleep,
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, Result};

use super::{namespace, pool_lock::PoolLock, store::lock};

/// Directories searched after `PATH`, because the `PATH` of a service often lacks the `sbin`
/// directories.
const PROGRAM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

/// Delays between attempts while a dataset is busy: zfs-fuse releases one some time after it was
/// unmounted, seconds on a loaded machine.
const RETRY_DELAYS_MS: [u64; 16] = [
    5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000,
];

/// Serialises commands on zfs-fuse.
static COMMAND_LOCK: Mutex<()> = Mutex::new(());

/// Meaning of a failed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The dataset, snapshot or pool does not exist.
    Missing,
    Exists,
    Busy,
    /// It has clones.
    HasClones,
    /// The pool or a quota is full.
    Full,
    /// The quota is below the space in use.
    QuotaTooSmall,
    /// Nothing to unmount, release or wait for.
    NothingToDo,
    AlreadyMounted,
    Forbidden,
    /// The command or option is not supported by this version.
    Unknown,
    /// Program, kernel module or daemon is missing.
    NotInstalled,
    Other,
}

impl Fault {
    /// Classifies the error text, which is the same in zfs-fuse and OpenZFS except where noted.
    fn of(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if says(&["dependent clones", "has dependents"]) {
            Self::HasClones
        } else if says(&["size is less than current used"]) {
            Self::QuotaTooSmall
        } else if says(&["out of space", "no space left", "quota exceeded"]) {
            Self::Full
        } else if says(&[
            "not currently mounted",
            "no such tag",
            "no such hold",
            "tag does not exist",
        ]) {
            Self::NothingToDo
        } else if says(&["already mounted"]) {
            Self::AlreadyMounted
        } else if says(&[
            "failed to initialize the zfs library",
            "zfs modules are not loaded",
            "modules cannot be auto-loaded",
        ]) || says(&[
            "unable to open /dev/zfs",
            "/dev/zfs and /proc/self/mounts",
            "zfs_socket",
            "failed to initialize zfs library",
        ]) {
            Self::NotInstalled
        } else if says(&[
            "does not exist",
            "no such pool",
            "could not find any snapshots",
        ]) {
            Self::Missing
        } else if says(&["already exists"]) {
            Self::Exists
        } else if says(&["busy"]) {
            Self::Busy
        } else if says(&[
            "permission denied",
            "insufficient privileges",
            "operation not permitted",
        ]) {
            Self::Forbidden
        } else if says(&["unrecognized command", "invalid option", "usage:"]) {
            Self::Unknown
        } else {
            Self::Other
        }
    }
}

/// Failed command.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    command: String,
    text: String,
}

impl Failure {
    /// Converts the failure to an error, where the fault has no more specific one.
    pub(super) fn into_error(self, action: impl fmt::Display) -> Error {
        let error = |code| Error::new(code, action.to_string()).with_source(self.to_string());
        match self.fault {
            Fault::Full => {
                error(ErrorCode::StorageFull).with_hint("destroy sessions or snapshots, or enlarge the pool")
            }
            Fault::Busy => error(ErrorCode::Unavailable).with_hint("stop the processes that use it and try again"),
            Fault::Forbidden => {
                error(ErrorCode::PermissionDenied).with_hint("run as root, or delegate with `zfs allow`")
            }
            Fault::NotInstalled => error(ErrorCode::Unavailable)
                .with_hint("install ZFS (`zfsutils-linux` or `zfs-fuse`) and load its module or start its daemon"),
            Fault::QuotaTooSmall => error(ErrorCode::InvalidArgument)
                .with_field("quota")
                .with_hint("choose a quota above the space the session uses"),
            _ => error(ErrorCode::Internal),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.command, self.text)
    }
}

/// Paths of the two programs.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    zfs: PathBuf,
    zpool: PathBuf,
    /// Lock inherited by every command.
    pub(super) pool_lock: Arc<PoolLock>,
}

impl Tools {
    pub(super) fn find() -> Result<Self> {
        let find = |name: &str| {
            let path = env::var_os("PATH").unwrap_or_default();
            let places =
                env::split_paths(&path).chain(PROGRAM_DIRECTORIES.iter().map(PathBuf::from));
            places.map(|place| place.join(name)).find(|program| program.is_file()).ok_or_else(|| {
                Error::new(ErrorCode::Unavailable, format!("program `{name}` is not installed"))
                    .with_hint("install `zfsutils-linux` (or `zfs-fuse`), or choose another storage backend")
            })
        };
        Ok(Self {
            zfs: find("zfs")?,
            zpool: find("zpool")?,
            pool_lock: Arc::default(),
        })
    }

    /// Runs `zfs` and returns its output.
    pub(super) fn zfs<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, Failure> {
        run(&self.zfs, arguments, self.pool_lock.stream())
    }

    pub(super) fn zpool<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, Failure> {
        run(&self.zpool, arguments, self.pool_lock.stream())
    }

    /// Runs `zfs`, retrying for some seconds while the dataset is busy.
    pub(super) fn zfs_retrying<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, Failure> {
        self.zfs_with_backoff(arguments, &RETRY_DELAYS_MS)
    }

    /// As [`zfs_retrying`](Self::zfs_retrying), for less than 100 ms: for callers that handle a
    /// busy dataset.
    pub(super) fn zfs_retrying_briefly<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
    ) -> Result<String, Failure> {
        self.zfs_with_backoff(arguments, &RETRY_DELAYS_MS[..4])
    }

    fn zfs_with_backoff<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        waits: &[u64],
    ) -> Result<String, Failure> {
        for &wait in waits {
            match self.zfs(arguments) {
                Err(failure) if failure.fault == Fault::Busy => sleep(Duration::from_millis(wait)),
                outcome => return outcome,
            }
        }
        self.zfs(arguments)
    }

    /// Starts `zfs` with a stream; [`finish`](Self::finish) waits for it.
    pub(super) fn start_zfs(
        &self,
        arguments: &[&str],
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<Child, Failure> {
        let mut command = prepare(&self.zfs, arguments);
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        namespace::in_daemon_namespace(|| command.spawn())
            .map_err(|error| not_started(&describe(&self.zfs, arguments), &error))
    }

    pub(super) fn finish(&self, arguments: &[&str], child: Child) -> Result<(), Failure> {
        let command = describe(&self.zfs, arguments);
        let output = child
            .wait_with_output()
            .map_err(|error| not_started(&command, &error))?;
        judge(&command, &output).map(drop)
    }
}

fn run<S: AsRef<OsStr>>(program: &Path, arguments: &[S], stdin: Stdio) -> Result<String, Failure> {
    let mut command = prepare(program, arguments);
    command.stdin(stdin);
    // Concurrent commands busy-wait for each other in zfs-fuse, for minutes on a loaded machine.
    let turn = (!namespace::is_in_kernel()).then(|| lock(&COMMAND_LOCK));
    let output = namespace::in_daemon_namespace(|| command.output());
    drop(turn);
    let command = describe(program, arguments);
    tracing::trace!(command, "ran");
    let output = output.map_err(|error| not_started(&command, &error))?;
    judge(&command, &output)?;
    String::from_utf8(output.stdout).map_err(|error| Failure {
        fault: Fault::Other,
        command,
        text: format!("output is not UTF-8: {error}"),
    })
}

fn prepare<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "this module owns `zfs` and `zpool`"
    )]
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    command
}

fn describe<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    arguments.iter().fold(name.into_owned(), |line, argument| {
        line + " " + &argument.as_ref().to_string_lossy()
    })
}

fn not_started(command: &str, error: &io::Error) -> Failure {
    let fault = match error.kind() {
        io::ErrorKind::NotFound => Fault::NotInstalled,
        io::ErrorKind::PermissionDenied => Fault::Forbidden,
        _ => Fault::Other,
    };
    Failure {
        fault,
        command: command.to_owned(),
        text: error.to_string(),
    }
}

fn judge(command: &str, output: &Output) -> Result<(), Failure> {
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let fault = Fault::of(&text);
    // The first line is enough for an unknown option; the usage text is long.
    let text = text
        .trim()
        .lines()
        .take(if fault == Fault::Unknown { 1 } else { 4 })
        .collect::<Vec<_>>()
        .join("; ");
    let text = if text.is_empty() {
        output.status.to_string()
    } else {
        text
    };
    Err(Failure {
        fault,
        command: command.to_owned(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_old_and_new_versions_mean_the_same() {
        for (text, fault) in [
            (
                "cannot open 'tank/x': dataset does not exist",
                Fault::Missing,
            ),
            ("cannot open 'nopool': no such pool", Fault::Missing),
            (
                "could not find any snapshots to destroy; check snapshot names.",
                Fault::Missing,
            ),
            (
                "cannot create 'tank/x': dataset already exists",
                Fault::Exists,
            ),
            (
                "cannot create snapshot 'tank/x@y': dataset already exists\nno snapshots were created",
                Fault::Exists,
            ),
            ("cannot destroy 'tank/x': dataset is busy", Fault::Busy),
            (
                "cannot unmount '/tank/x': pool or dataset is busy",
                Fault::Busy,
            ),
            ("umount: /tank/x: target is busy.", Fault::Busy),
            (
                "cannot destroy 'tank/x@y': snapshot has dependent clones\nuse '-R' to destroy",
                Fault::HasClones,
            ),
            (
                "cannot destroy 'tank/x': filesystem has dependent clones",
                Fault::HasClones,
            ),
            (
                "cannot create snapshot 'tank/x@y': out of space",
                Fault::Full,
            ),
            (
                "cannot receive new filesystem stream: destination tank/x space quota exceeded.",
                Fault::Full,
            ),
            (
                "cannot set property for 'x': size is less than current used or reserved space",
                Fault::QuotaTooSmall,
            ),
            (
                "cannot unmount 'tank/x': not currently mounted",
                Fault::NothingToDo,
            ),
            (
                "cannot release 'sandbar' from 'tank/x@y': no such tag on this dataset",
                Fault::NothingToDo,
            ),
            (
                "cannot release hold from snapshot 'tank/x@y': no such tag on this dataset",
                Fault::NothingToDo,
            ),
            (
                "cannot mount 'tank/x': filesystem already mounted",
                Fault::AlreadyMounted,
            ),
            (
                "unrecognized command 'wait'\nusage: zpool command args ...",
                Fault::Unknown,
            ),
            ("invalid option 'p'\nusage:\n\tlist", Fault::Unknown),
            (
                "The ZFS modules are not loaded.\nTry running '/sbin/modprobe zfs'",
                Fault::NotInstalled,
            ),
            (
                "The ZFS modules cannot be auto-loaded.",
                Fault::NotInstalled,
            ),
            (
                "internal error: failed to initialize ZFS library",
                Fault::NotInstalled,
            ),
            (
                "cannot create 'tank/x': permission denied",
                Fault::Forbidden,
            ),
            ("cannot frobnicate", Fault::Other),
        ] {
            assert_eq!(Fault::of(text), fault, "{text}");
        }
    }

    #[test]
    fn a_full_pool_is_storage_full_and_names_the_command() {
        let failure = Failure {
            fault: Fault::Full,
            command: "zfs snapshot a@b".into(),
            text: "out of space".into(),
        };
        let error = failure.into_error("take a snapshot");
        assert_eq!(error.code(), ErrorCode::StorageFull);
        assert_eq!(
            error.chain(),
            "take a snapshot: `zfs snapshot a@b`: out of space"
        );
    }

    #[test]
    fn arguments_never_meet_a_shell() {
        let printed = run(
            Path::new("/bin/echo"),
            &["$(id)", ";", "`id`"],
            Stdio::null(),
        )
        .unwrap();
        assert_eq!(printed, "$(id) ; `id`\n");
    }
}
