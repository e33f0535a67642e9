//! What a host can do, as facts with reasons.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// One thing a host can or cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capability {
    Yes,
    /// Not here, and why.
    No(String),
}

impl Capability {
    pub fn no(reason: impl Into<String>) -> Self {
        Self::No(reason.into())
    }

    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }

    /// Why not; `None` when it is there.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Yes => None,
            Self::No(reason) => Some(reason),
        }
    }
}

/// The storage under the sessions of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageKind {
    Zfs,
    Btrfs,
    LocalDisk,
}

impl StorageKind {
    pub const ALL: [Self; 3] = [Self::Zfs, Self::Btrfs, Self::LocalDisk];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zfs => "zfs",
            Self::Btrfs => "btrfs",
            Self::LocalDisk => "local-disk",
        }
    }
}

/// How commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeKind {
    /// A kernel of its own in user space: gVisor.
    Gvisor,
    /// Linux namespaces, a private range of users, seccomp, Landlock, cgroups.
    Native,
    /// No isolation: for trusted use.
    None,
}

impl RuntimeKind {
    pub const ALL: [Self; 3] = [Self::Gvisor, Self::Native, Self::None];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gvisor => "gvisor",
            Self::Native => "native",
            Self::None => "none",
        }
    }
}

macro_rules! kind_text {
    ($kind:ident, $field:literal, $hint:literal) => {
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $kind {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
                    Error::invalid($field, format!("`{}` is unknown", text.escape_debug())).with_hint($hint)
                })
            }
        }
    };
}

kind_text!(StorageKind, "storage_backend", "use zfs, btrfs, local-disk or auto");
kind_text!(RuntimeKind, "container_runtime", "use gvisor, native, none or auto");

/// What a host can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    pub storage: StorageKind,
    pub runtime: RuntimeKind,
    /// The boundary sessions really have, in words.
    pub isolation: String,
    pub snapshots: Capability,
    pub rollback: Capability,
    pub keep_later: Capability,
    pub fork: Capability,
    pub quota: Capability,
    /// Snapshot and fork cost does not grow with what a session holds.
    pub constant_time_snapshots: Capability,
    /// The base lies below a private writable layer, so that a new session copies nothing.
    pub layered: Capability,
    /// What runs can be frozen and goes on later where it was.
    pub pause: Capability,
    /// What runs can be written to disk and started from there.
    pub checkpoint: Capability,
    /// CPU, memory and process counts of a session can be limited.
    pub limits: Capability,
    /// The network of a session can be opened, and is kept to what its policy says.
    pub network: Capability,
    /// Commands can run as other users of the sandbox than root.
    pub users: Capability,
    /// The root of a sandbox can have rights of its own: `sudo`, changing owners.
    pub root_rights: Capability,
}

impl Capabilities {
    /// Every yes-or-no capability with its wire name.
    pub fn entries(&self) -> [(&'static str, &Capability); 13] {
        [
            ("snapshots", &self.snapshots),
            ("rollback", &self.rollback),
            ("keep_later", &self.keep_later),
            ("fork", &self.fork),
            ("quota", &self.quota),
            ("constant_time_snapshots", &self.constant_time_snapshots),
            ("layered", &self.layered),
            ("pause", &self.pause),
            ("checkpoint", &self.checkpoint),
            ("limits", &self.limits),
            ("network", &self.network),
            ("users", &self.users),
            ("root_rights", &self.root_rights),
        ]
    }
}
