//! The directory of one container: the OCI bundle it is started from, and what host and container share.

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
    runtime::{TRUST_AUTHORITY, TRUST_BUNDLE},
};

/// Where the tree of the session appears in the container.
pub(super) const SESSION: &str = "session";
/// A file in the place of the tree: whoever sees it does not see the tree.
pub(super) const NO_TREE: &str = "session/no-tree";
/// The directory of ours in the container, which commands do not see.
const OWN: &str = ".sandbar";
/// Where the container finds the named pipes of its commands, from its root.
pub(super) const PIPES: &str = ".sandbar/io";

/// Where it finds the certificates it is to show, from its root.
pub(super) const TRUST: &str = ".sandbar/trust";

/// Whose the certificates are: nobody's in the container, since nothing there is read-only to its owner.
const TRUST_OWNER: u32 = 65_534;

/// Mount points and directories in the container's root, parents first.
const DIRECTORIES: [&str; 8] = ["proc", "dev", "sys", "tmp", SESSION, OWN, PIPES, TRUST];

/// What init may do inside: mount, enter the tree, put processes into groups, end them, be another user than they, give
/// terminals to their users, and give all of it up.
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
    /// Makes everything a container needs to start. `network` is the namespace it is to be in, where it does not get one of
    /// its own.
    pub(super) fn create(directory: PathBuf, network: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        let bundle = Self { directory };
        bundle.fill(network).inspect_err(|_| drop(bundle.remove()))?;
        Ok(bundle)
    }

    /// One that another host made.
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
        fs::write(self.directory.join("config.json"), serde_json::to_vec(&self.configuration(network)?)?)
    }

    fn configuration(&self, network: Option<BorrowedFd<'_>>) -> io::Result<serde_json::Value> {
        let init = format!("/{OWN}/{}", role::INIT);
        let mut namespaces: Vec<_> = ["pid", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind })).into();
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

    /// Where `runsc` keeps what it knows of the container.
    pub(super) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    pub(super) fn pipes(&self) -> PathBuf {
        self.directory.join("io")
    }

    fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// The directory that shows the tree of the session.
    pub(super) fn session(&self) -> PathBuf {
        self.root().join(SESSION)
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.directory.join("pid")
    }

    fn record(&self) -> PathBuf {
        self.directory.join("processes.json")
    }

    /// Has the container show certificates once it is told so.
    pub(super) fn write_trust(&self, trust: &Trust) -> io::Result<()> {
        let place = self.root().join(TRUST);
        for (name, text) in [(TRUST_AUTHORITY, &trust.authority), (TRUST_BUNDLE, &trust.bundle)] {
            let file = place.join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o444))?;
            give_away(&file)?;
        }
        give_away(&place)
    }

    /// Writes down which processes are the container's, for a host that comes after us.
    pub(super) fn write_processes(&self, processes: &[ProcessRecord]) -> io::Result<()> {
        fs::write(self.record(), serde_json::to_vec(processes)?)
    }

    pub(super) fn processes(&self) -> Vec<ProcessRecord> {
        let text = fs::read(self.record()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Forgets the container, which has ended, so that another can be started in its place.
    pub(super) fn clear_state(&self) -> io::Result<()> {
        remove_files(&self.state(), 1)?;
        unless_missing(fs::remove_file(self.pid_file()))?;
        fs::create_dir(self.state())
    }

    /// Removes the directory. Each name is one we know: nothing is removed that somebody else put here, and nothing
    /// through a mount.
    pub(super) fn remove(&self) -> io::Result<()> {
        for (directory, depth) in [(self.state(), 1), (self.pipes(), 2)] {
            remove_files(&directory, depth)?;
        }
        let own = self.root().join(OWN);
        let trust = self.root().join(TRUST);
        for file in
            [self.root().join(NO_TREE), own.join(role::INIT), trust.join(TRUST_AUTHORITY), trust.join(TRUST_BUNDLE)]
        {
            unless_missing(fs::remove_file(file))?;
        }
        for name in DIRECTORIES.iter().rev() {
            unless_missing(fs::remove_dir(self.root().join(name)))?;
        }
        unless_missing(fs::remove_dir(self.root()))?;
        for file in [self.directory.join("config.json"), self.pid_file(), self.record()] {
            unless_missing(fs::remove_file(file))?;
        }
        unless_missing(fs::remove_dir(&self.directory))
    }
}

/// Makes it nobody's in the container. An ordinary user cannot, and has no network whose certificates would matter.
fn give_away(path: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() { chown(path, Some(TRUST_OWNER), Some(TRUST_OWNER)) } else { Ok(()) }
}

/// Removes a directory whose files lie at most so many levels deep.
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
