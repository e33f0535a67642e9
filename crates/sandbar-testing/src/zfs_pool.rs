//! A ZFS pool for one test: a `zfs-fuse` daemon in a mount namespace of its own, over a sparse
//! file.

#![expect(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]

use std::{
    fs::{self, File},
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{
    mount::{MountFlags, UnmountFlags, mount, unmount},
    process::{Signal, set_parent_process_death_signal, setpriority_process},
};
use sandbar_storage::ZfsConfig;
use tempfile::TempDir;

use crate::private_mounts;

/// Directories with the socket, the lock and the list of pools of zfs-fuse. Each daemon gets a
/// tmpfs over them, so that several can run at a time.
const STATE: [&str; 3] = ["/run/zfs", "/run/lock/zfs", "/var/lib/zfs"];
const SOCKET: &str = "/run/zfs/zfs_socket";

/// A `zfs-fuse` that only the calling thread, and what it starts from now on, can reach.
#[derive(Debug)]
pub struct ZfsDaemon {
    child: Child,
    directory: TempDir,
}

impl ZfsDaemon {
    /// Moves the calling thread into a mount namespace of its own and starts a daemon there.
    pub fn start() -> Result<Self, String> {
        private_mounts();
        for directory in STATE {
            fs::create_dir_all(directory)
                .map_err(|error| format!("make `{directory}`: {error}"))?;
            mount("tmpfs", directory, "tmpfs", MountFlags::empty(), None)
                .map_err(|errno| format!("mount a tmpfs at `{directory}`: {errno}"))?;
        }
        let directory = tempfile::Builder::new()
            .prefix("zfs-")
            .tempdir()
            .map_err(|error| format!("make a temporary directory: {error}"))?;
        let log = File::create(directory.path().join("zfs-fuse.log"))
            .map_err(|error| format!("make a log: {error}"))?;
        let errors = log
            .try_clone()
            .map_err(|error| format!("share the log: {error}"))?;
        let mut command = Command::new("/usr/sbin/zfs-fuse");
        command
            .args(["--no-daemon", "--no-kstat-mount", "--enable-xattr"])
            // As in Debian's configuration file, so that tests do not depend on it.
            .args([
                "--fuse-mount-options",
                "default_permissions",
                "--zfs-prefetch-disable",
            ])
            .args([
                "--fuse-attr-timeout",
                "3600",
                "--fuse-entry-timeout",
                "3600",
            ])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        // SAFETY: between fork and exec only system calls are made, which allocate nothing and take
        // no lock.
        unsafe {
            command.pre_exec(|| {
                // Its threads spin for one another, and get nowhere on a busy machine when others
                // come first.
                let _ = setpriority_process(None, -10);
                Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
            });
        }
        let child = command.spawn().map_err(|error| {
            format!(
                "start `/usr/sbin/zfs-fuse`: {error}; install it with `apt-get install zfs-fuse`"
            )
        })?;
        let mut daemon = Self { child, directory };
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_mins(3);
        // The socket exists once it is bound, and is usable once the daemon listens.
        while UnixStream::connect(SOCKET).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = fs::read_to_string(self.directory.path().join("zfs-fuse.log"))
                    .unwrap_or_default();
                return Err(format!("zfs-fuse ended with {status}: {log}"));
            }
            if Instant::now() > deadline {
                return Err("zfs-fuse did not open its socket in three minutes".into());
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// A directory that goes with the daemon.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process id of the daemon.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes a pool of this name over one sparse file of `size` bytes.
    pub fn pool(&self, name: &str, size: u64) -> Result<(), String> {
        let device = self.sparse_file(name, size)?;
        self.create(name, &[device.as_os_str().to_string_lossy().as_ref()])
    }

    /// Makes a pool that mirrors two files; returns them.
    pub fn mirror(&self, name: &str, size: u64) -> Result<[PathBuf; 2], String> {
        let devices = [
            self.sparse_file(&format!("{name}-0"), size)?,
            self.sparse_file(&format!("{name}-1"), size)?,
        ];
        let names: Vec<String> = devices
            .iter()
            .map(|device| device.to_string_lossy().into_owned())
            .collect();
        self.create(name, &["mirror", &names[0], &names[1]])?;
        Ok(devices)
    }

    fn sparse_file(&self, name: &str, size: u64) -> Result<PathBuf, String> {
        let path = self.directory.path().join(format!("{name}.vdev"));
        let file =
            File::create(&path).map_err(|error| format!("make `{}`: {error}", path.display()))?;
        file.set_len(size)
            .map_err(|error| format!("enlarge `{}`: {error}", path.display()))?;
        Ok(path)
    }

    fn create(&self, name: &str, devices: &[&str]) -> Result<(), String> {
        let mountpoint = self
            .directory
            .path()
            .join(name)
            .to_string_lossy()
            .into_owned();
        let mut arguments = vec!["create", "-m", mountpoint.as_str(), name];
        arguments.extend(devices);
        self.run("zpool", &arguments).map(drop)
    }

    /// Runs `zfs` or `zpool` and returns what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let program = Path::new("/usr/sbin").join(program);
        let output = Command::new(&program)
            .args(arguments)
            .output()
            .map_err(|error| format!("run `{}`: {error}", program.display()))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{} {}: {}",
                program.display(),
                arguments.join(" "),
                complaint.trim()
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for ZfsDaemon {
    fn drop(&mut self) {
        // Without its daemon a mount is dead, and detaching it cannot wait for anything.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
        let targets = mounts
            .lines()
            .rev()
            .filter_map(|line| line.split(' ').nth(4));
        for target in targets.filter(|target| Path::new(target).starts_with(self.directory.path()))
        {
            let _ = unmount(target, UnmountFlags::DETACH);
        }
    }
}

/// A daemon with one pool.
#[derive(Debug)]
pub struct ZfsPool {
    daemon: ZfsDaemon,
    name: String,
}

impl ZfsPool {
    /// A fresh pool of `size` bytes, of which only what is written takes space. The calling thread
    /// enters a mount namespace of its own, where the pool's datasets are mounted. At least 64 MiB
    /// are needed.
    pub fn new(size: u64) -> Result<Self, String> {
        let daemon = ZfsDaemon::start()?;
        // The leak check knows pools of a run by its name.
        let run = std::env::var("SANDBAR_TEST_RUN").unwrap_or_default();
        let name = format!("sandbartest{run}-{}", daemon.pid());
        daemon.pool(&name, size)?;
        Ok(Self { daemon, name })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the configuration of a storage on this pool.
    pub fn config(&self) -> ZfsConfig {
        ZfsConfig {
            pool: self.name.clone(),
            bases_dataset: None,
            sessions_dataset: None,
        }
    }

    pub fn daemon(&self) -> &ZfsDaemon {
        &self.daemon
    }

    /// Runs `zfs` and returns what it printed.
    pub fn zfs(&self, arguments: &[&str]) -> Result<String, String> {
        self.daemon.run("zfs", arguments)
    }
}
