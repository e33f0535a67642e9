//! Sessions: specification, state and description.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    BaseName, ByteCount, Error, NetworkPolicy, Resources, Result, RootRights, RuntimeKind,
    SessionId, StorageKind,
};

/// Free-form tags of a session.
pub type Labels = BTreeMap<String, String>;

/// Checks the names and values of labels.
pub(crate) fn validate_labels(labels: &Labels) -> Result<()> {
    for (key, value) in labels {
        if key.is_empty() || key.len() > 128 || key.contains(['=', '\0', '\n']) {
            return Err(Error::invalid(
                "labels",
                format!("label name `{}` is not usable", key.escape_debug()),
            )
            .with_hint("use 1 to 128 characters without `=`, newlines or NUL"));
        }
        if value.len() > 4096 || value.contains('\0') {
            return Err(Error::invalid(
                "labels",
                format!("the value of label `{key}` is not usable"),
            )
            .with_hint("use at most 4096 bytes without NUL"));
        }
    }
    Ok(())
}

/// Checks the names and values of environment variables.
pub(crate) fn validate_env(env: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in env {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return Err(Error::invalid(
                "env",
                format!("variable `{}` is not usable", key.escape_debug()),
            )
            .with_hint("names are not empty and hold no `=`; neither part holds NUL"));
        }
    }
    Ok(())
}

/// Request for a new session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSpec {
    pub base: BaseName,
    /// Random when absent.
    pub id: Option<SessionId>,
    pub quota: Option<ByteCount>,
    pub labels: Labels,
    pub resources: Resources,
    /// `None` is a closed network, where the runtime can enforce that. A required policy that the
    /// runtime cannot enforce is refused.
    pub network: Option<NetworkPolicy>,
    /// Environment variables of all commands. None of the host's are passed.
    pub env: BTreeMap<String, String>,
    /// Time to live, from creation.
    pub time_to_live: Option<Duration>,
    /// Action at the end of its time to live.
    pub on_expiry: OnExpiry,
    /// Idle time after which it is paused; the host's default when `None`.
    pub idle_timeout: Option<Duration>,
    /// Capabilities of its root. Refused if the host cannot grant them.
    pub root_rights: RootRights,
    /// Owner of an empty `/workspace`; root when absent. Not part of the wire API.
    pub workspace_user: Option<String>,
}

impl SessionSpec {
    pub fn new(base: BaseName) -> Self {
        Self {
            base,
            id: None,
            quota: None,
            labels: Labels::new(),
            resources: Resources::default(),
            network: None,
            env: BTreeMap::new(),
            time_to_live: None,
            on_expiry: OnExpiry::default(),
            idle_timeout: None,
            root_rights: RootRights::default(),
            workspace_user: None,
        }
    }

    /// Checks labels, environment variables and limits.
    pub fn validate(&self) -> Result<()> {
        validate_labels(&self.labels)?;
        validate_env(&self.env)?;
        self.resources.validate()?;
        if let Some(policy) = &self.network {
            policy.validate()?;
        }
        if self.quota == Some(ByteCount(0)) {
            return Err(Error::invalid("quota", "the quota is zero")
                .with_hint("leave it out for the default quota"));
        }
        if self.time_to_live.is_some_and(|ttl| ttl.is_zero()) {
            return Err(Error::invalid("timeout", "the time to live is zero")
                .with_hint("leave it out for no limit"));
        }
        if self.idle_timeout.is_some_and(|idle| idle.is_zero()) {
            return Err(Error::invalid("idle_timeout", "the idle time is zero")
                .with_hint("leave it out for the host's default"));
        }
        Ok(())
    }
}

/// Action at the end of a session's time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExpiry {
    #[default]
    Destroy,
    /// Pause it, with frozen processes where the runtime supports that. It has no further time to
    /// live.
    Pause,
    /// Pause it and end its processes.
    PauseFiles,
}

impl OnExpiry {
    pub const ALL: [Self; 3] = [Self::Destroy, Self::Pause, Self::PauseFiles];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Destroy => "destroy",
            Self::Pause => "pause",
            Self::PauseFiles => "pause-files",
        }
    }
}

impl fmt::Display for OnExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for OnExpiry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|then| then.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(
                    "on_expiry",
                    format!("expiry action `{}` is unknown", text.escape_debug()),
                )
                .with_hint("use destroy, pause or pause-files")
            })
    }
}

/// Parts that a paused session keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Everything: processes are frozen and continue later.
    #[default]
    Memory,
    /// Files: processes are ended.
    Files,
}

impl Keep {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Files => "files",
        }
    }
}

/// Lifecycle state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    Creating,
    Active,
    /// Its processes are frozen, or were ended.
    Paused,
    /// Its volume is in the object store and takes no local space.
    Hibernated,
    Destroying,
    /// Its volume is lost or damaged; it can only be destroyed.
    Failed,
}

impl SessionState {
    pub const ALL: [Self; 6] = [
        Self::Creating,
        Self::Active,
        Self::Paused,
        Self::Hibernated,
        Self::Destroying,
        Self::Failed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Hibernated => "hibernated",
            Self::Destroying => "destroying",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SessionState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(
                    "state",
                    format!("session state `{}` is unknown", text.escape_debug()),
                )
                .with_hint("use creating, active, paused, hibernated, destroying or failed")
            })
    }
}

/// Description of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub id: SessionId,
    pub state: SessionState,
    pub base: BaseName,
    pub labels: Labels,
    pub storage: StorageKind,
    pub runtime: RuntimeKind,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
    /// Action at that time.
    pub on_expiry: OnExpiry,
    /// Idle time after which it is paused.
    pub idle_timeout: Option<Duration>,
    pub quota: Option<ByteCount>,
    /// Current policy; the default of the runtime when `None`.
    pub network: Option<NetworkPolicy>,
    /// Capabilities of its root.
    pub root_rights: RootRights,
    /// Bytes in addition to its base.
    pub space_used: ByteCount,
    pub turn_count: u64,
    pub snapshot_count: u64,
    /// Session and snapshot that it was forked from.
    pub parent: Option<(SessionId, Option<crate::SnapshotName>)>,
    /// `None` unless requested, and where the host cannot measure it.
    pub usage: Option<SessionUsage>,
}

/// Current resource usage of a session. A figure that the host cannot measure is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// CPU time since its box started.
    pub cpu_time: Option<Duration>,
    pub memory: Option<ByteCount>,
    pub processes: Option<u64>,
}

impl SessionUsage {
    /// Usage of a session without processes.
    pub const NOTHING: Self = Self {
        cpu_time: Some(Duration::ZERO),
        memory: Some(ByteCount(0)),
        processes: Some(0),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn invalid_session_spec_is_refused_with_its_field() {
        let good = SessionSpec::new(BaseName::new("host").unwrap());
        good.validate().unwrap();
        let mut bad_env = good.clone();
        bad_env.env.insert("A=B".into(), "x".into());
        let mut bad_cpus = good.clone();
        bad_cpus.resources.cpus = Some(-1.0);
        let mut bad_label = good.clone();
        bad_label.labels.insert(String::new(), "x".into());
        let mut bad_quota = good;
        bad_quota.quota = Some(ByteCount(0));
        for (spec, field) in [
            (bad_env, "env"),
            (bad_cpus, "resources.cpus"),
            (bad_label, "labels"),
            (bad_quota, "quota"),
        ] {
            let error = spec.validate().unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some(field))
            );
            assert!(error.hint().is_some());
        }
    }
}
