//! Capabilities of a host, with reasons for the missing ones.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Presence of one capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capability {
    Yes,
    /// Missing, with the reason.
    No(String),
}

impl Capability {
    pub fn no(reason: impl Into<String>) -> Self {
        Self::No(reason.into())
    }

    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }

    /// Returns the reason why it is missing; `None` if it is present.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Yes => None,
            Self::No(reason) => Some(reason),
        }
    }
}

/// Storage backend of a host.
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

/// Runtime that isolates the commands of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeKind {
    /// gVisor: a separate kernel in user space.
    Gvisor,
    /// Linux namespaces, a private uid range, seccomp, Landlock, cgroups.
    Native,
    /// No isolation, for trusted commands.
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
                Self::ALL
                    .into_iter()
                    .find(|kind| kind.as_str() == text)
                    .ok_or_else(|| {
                        Error::invalid($field, format!("`{}` is unknown", text.escape_debug()))
                            .with_hint($hint)
                    })
            }
        }
    };
}

kind_text!(
    StorageKind,
    "storage_backend",
    "use zfs, btrfs, local-disk or auto"
);
kind_text!(
    RuntimeKind,
    "container_runtime",
    "use gvisor, native, none or auto"
);

/// Capabilities of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    pub storage: StorageKind,
    pub runtime: RuntimeKind,
    /// Description of the isolation boundary.
    pub isolation: String,
    pub snapshots: Capability,
    pub rollback: Capability,
    pub keep_later: Capability,
    pub fork: Capability,
    pub quota: Capability,
    /// The cost of snapshot and fork does not depend on the size of a session.
    pub constant_time_snapshots: Capability,
    /// A session is a writable layer over its base, so that creating one copies nothing.
    pub layered: Capability,
    /// Processes of a session can be frozen and resumed.
    pub pause: Capability,
    /// Processes can be written to disk and restored.
    pub checkpoint: Capability,
    /// CPU, memory and process counts of a session can be limited.
    pub limits: Capability,
    /// The network policy of a session is enforced.
    pub network: Capability,
    /// Commands can run as users other than root.
    pub users: Capability,
    /// Root of a sandbox can have capabilities: `sudo`, `chown`.
    pub root_rights: Capability,
}

impl Capabilities {
    /// Returns every capability with its wire name.
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
