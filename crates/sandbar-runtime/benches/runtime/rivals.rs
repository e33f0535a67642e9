//! Programs people use for the same today.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    fs::{self, File},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use rustix::mount::{MountFlags, mount};
use sandbar_testing::{measure::milliseconds, private_mounts};
use serde_json::json;

/// A program that makes a box, says hello in it, and takes it down.
pub(crate) struct Rival {
    command: Box<dyn Fn() -> Command>,
}

impl Rival {
    /// Milliseconds from start to end.
    pub(crate) fn run(&self) -> f64 {
        let started = Instant::now();
        let output = (self.command)()
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let took = milliseconds(started);
        assert_eq!(output.stdout, b"hello\n");
        took
    }
}

/// All of them, over the same tree.
pub(crate) fn all(root: &Path, scratch: &Path) -> Vec<(&'static str, Rival)> {
    vec![("bwrap", bubblewrap(root)), ("crun", crun(root, scratch))]
}

fn bubblewrap(root: &Path) -> Rival {
    let root = root.to_owned();
    let command = move || {
        let mut command = Command::new("bwrap");
        command
            .args(["--unshare-all", "--die-with-parent", "--bind"])
            .arg(&root)
            .arg("/");
        command.args(["--proc", "/proc", "--dev", "/dev", "/usr/bin/echo", "hello"]);
        command
    };
    Rival {
        command: Box::new(command),
    }
}

/// Its defaults, less what it cannot do on a machine with both kinds of cgroups.
fn crun(root: &Path, scratch: &Path) -> Rival {
    let namespaces: Vec<_> = ["pid", "network", "ipc", "uts", "mount", "cgroup"]
        .map(|kind| json!({"type": kind}))
        .into();
    let configuration = json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/usr/bin/echo", "hello"],
            "env": ["PATH=/usr/bin"],
            "cwd": "/",
            "noNewPrivileges": true,
        },
        "root": {"path": root},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        ],
        "linux": {"namespaces": namespaces},
    });
    let bundle = scratch.join("bundle");
    fs::create_dir(&bundle).unwrap();
    fs::write(bundle.join("config.json"), configuration.to_string()).unwrap();
    let state = scratch.join("crun");
    let view = plain_cgroups();
    let command = move || {
        let mut command = Command::new("crun");
        command
            .arg("--root")
            .arg(&state)
            .args(["--cgroup-manager=disabled", "run", "--bundle"]);
        command
            .arg(&bundle)
            .arg(format!("bench-{}", std::process::id()));
        let view = view.as_raw_fd();
        // SAFETY: one system call on a descriptor that lives as long as the rival.
        unsafe {
            command.pre_exec(move || {
                if libc::setns(view, libc::CLONE_NEWNS) == 0 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            });
        }
        command
    };
    Rival {
        command: Box::new(command),
    }
}

/// A mount namespace in which this machine has one kind of cgroups.
fn plain_cgroups() -> File {
    let made = std::thread::spawn(|| {
        private_mounts();
        mount(
            "cgroup2",
            "/sys/fs/cgroup",
            "cgroup2",
            MountFlags::empty(),
            None,
        )
        .unwrap();
        File::open("/proc/thread-self/ns/mnt").unwrap()
    });
    made.join().unwrap()
}
