//! Directory of one container: its OCI bundle, and the files shared between host and container.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::{PermissionsExt, chown},
    },
    path::{Path, PathBuf},
};

use serde_json::json;

use super::host_process::ProcessRecord;
use crate::{
    Trust, role,
    trust::{AUTHORITY_FILE, BUNDLE_FILE},
};

/// Mount point of the session's tree in the container.
pub(super) const SESSION: &str = "session";
/// File below that mount point. Visible only as long as the tree is not mounted.
pub(super) const NO_TREE: &str = "session/no-tree";
/// Directory with Sandbar's own files in the container, which commands cannot reach.
const OWN: &str = ".sandbar";
/// Directory of the named pipes, relative to the container's root.
pub(super) const PIPES: &str = ".sandbar/io";

/// Directory of the CA certificates, relative to the container's root.
pub(super) const TRUST: &str = ".sandbar/trust";

/// Owner of the CA certificates: a uid no command runs as, because the owner of a file could make
/// it writable.
const TRUST_OWNER: u32 = 65_534;

/// Mount points and directories in the container's root, parents first.
const DIRECTORIES: [&str; 8] = ["proc", "dev", "sys", "tmp", SESSION, OWN, PIPES, TRUST];

/// Capabilities of init inside the container: to mount, enter the tree, create cgroups, kill
/// processes, run as a user of its own, give terminals to users, and drop all of them.
const CAPABILITIES: [&str; 9] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_ADMIN",
    "CAP_SYS_CHROOT",
    "CAP_SYS_RESOURCE",
];

#[derive(Debug)]
pub(super) struct Bundle {
    directory: PathBuf,
}

impl Bundle {
    /// Creates all files a container needs to start. `network` is its network namespace; without
    /// one, `runsc` creates a new one.
    pub(super) fn create(directory: PathBuf, network: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        let bundle = Self { directory };
        bundle
            .fill(network)
            .inspect_err(|_| drop(bundle.remove()))?;
        Ok(bundle)
    }

    /// Returns the bundle that another host has created.
    pub(super) const fn left_at(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn fill(&self, network: Option<BorrowedFd<'_>>) -> io::Result<()> {
        fs::create_dir(self.state())?;
        fs::create_dir(self.pipes())?;
        fs::create_dir(self.root())?;
        for name in DIRECTORIES {
            fs::create_dir(self.root().join(name))?;
        }
        fs::write(self.root().join(NO_TREE), "")?;
        fs::write(self.root().join(OWN).join(role::INIT), "")?;
        fs::write(
            self.directory.join("config.json"),
            serde_json::to_vec(&self.configuration(network)?)?,
        )
    }

    fn configuration(&self, network: Option<BorrowedFd<'_>>) -> io::Result<serde_json::Value> {
        let init = format!("/{OWN}/{}", role::INIT);
        let mut namespaces: Vec<_> = ["pid", "ipc", "uts", "mount"]
            .map(|kind| json!({ "type": kind }))
            .into();
        namespaces.push(match network {
            Some(network) => {
                let path = format!("/proc/{}/fd/{}", std::process::id(), network.as_raw_fd());
                json!({ "type": "network", "path": path })
            }
            None => json!({ "type": "network" }),
        });
        Ok(json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": { "uid": 0, "gid": 0 },
                "args": [&init],
                "env": [],
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": { "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES },
            },
            "root": { "path": self.root(), "readonly": false },
            "hostname": "sandbar",
            "mounts": [
                { "destination": "/proc", "type": "proc", "source": "proc" },
                { "destination": &init, "type": "bind", "source": role::program()?, "options": ["bind", "ro"] },
                { "destination": format!("/{PIPES}"), "type": "bind", "source": self.pipes(), "options": ["bind", "rw"] },
            ],
            "linux": {
                "namespaces": namespaces,
            },
        }))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Directory of `runsc`'s own state.
    pub(super) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    pub(super) fn pipes(&self) -> PathBuf {
        self.directory.join("io")
    }

    fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Mount point of the session's tree.
    pub(super) fn session(&self) -> PathBuf {
        self.root().join(SESSION)
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.directory.join("pid")
    }

    fn record(&self) -> PathBuf {
        self.directory.join("processes.json")
    }

    /// Writes the CA certificates, which init mounts when it gets its order.
    pub(super) fn write_trust(&self, trust: &Trust) -> io::Result<()> {
        let directory = self.root().join(TRUST);
        for (name, text) in [
            (AUTHORITY_FILE, &trust.authority),
            (BUNDLE_FILE, &trust.bundle),
        ] {
            let file = directory.join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o444))?;
            chown_trust(&file)?;
        }
        chown_trust(&directory)
    }

    /// Records the container's processes, so that a later host can kill them.
    pub(super) fn write_processes(&self, processes: &[ProcessRecord]) -> io::Result<()> {
        fs::write(self.record(), serde_json::to_vec(processes)?)
    }

    pub(super) fn processes(&self) -> Vec<ProcessRecord> {
        let text = fs::read(self.record()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Clears the state of the container, which has ended, so that another can be started with this
    /// bundle.
    pub(super) fn clear_state(&self) -> io::Result<()> {
        remove_files(&self.state(), 1)?;
        unless_missing(fs::remove_file(self.pid_file()))?;
        fs::create_dir(self.state())
    }

    /// Removes the directory. Removes known names only, so never a foreign file, nor files below a
    /// mount.
    pub(super) fn remove(&self) -> io::Result<()> {
        for (directory, depth) in [(self.state(), 1), (self.pipes(), 2)] {
            remove_files(&directory, depth)?;
        }
        let own = self.root().join(OWN);
        let trust = self.root().join(TRUST);
        for file in [
            self.root().join(NO_TREE),
            own.join(role::INIT),
            trust.join(AUTHORITY_FILE),
            trust.join(BUNDLE_FILE),
        ] {
            unless_missing(fs::remove_file(file))?;
        }
        for name in DIRECTORIES.iter().rev() {
            unless_missing(fs::remove_dir(self.root().join(name)))?;
        }
        unless_missing(fs::remove_dir(self.root()))?;
        for file in [
            self.directory.join("config.json"),
            self.pid_file(),
            self.record(),
        ] {
            unless_missing(fs::remove_file(file))?;
        }
        unless_missing(fs::remove_dir(&self.directory))
    }
}

/// Gives the file to [`TRUST_OWNER`]. An unprivileged host cannot, but its containers have no
/// network for which the certificates would matter.
fn chown_trust(path: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(TRUST_OWNER), Some(TRUST_OWNER))
    } else {
        Ok(())
    }
}

/// Removes a directory with files at most `depth` levels deep.
fn remove_files(directory: &Path, depth: usize) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() && depth > 1 {
            remove_files(&entry.path(), depth - 1)?;
        } else {
            unless_missing(fs::remove_file(entry.path()))?;
        }
    }
    unless_missing(fs::remove_dir(directory))
}

fn unless_missing(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
