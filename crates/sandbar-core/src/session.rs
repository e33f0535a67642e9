//! What a session is made from, and what is known about one.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    BaseName, ByteCount, Error, NetworkPolicy, Resources, Result, RootRights, RuntimeKind, SessionId, StorageKind,
};

/// Free-form tags of a session.
pub type Labels = BTreeMap<String, String>;

/// Checks the names and values of labels.
pub(crate) fn validate_labels(labels: &Labels) -> Result<()> {
    for (key, value) in labels {
        if key.is_empty() || key.len() > 128 || key.contains(['=', '\0', '\n']) {
            return Err(Error::invalid("labels", format!("label name `{}` is not usable", key.escape_debug()))
                .with_hint("use 1 to 128 characters without `=`, newlines or NUL"));
        }
        if value.len() > 4096 || value.contains('\0') {
            return Err(Error::invalid("labels", format!("the value of label `{key}` is not usable"))
                .with_hint("use at most 4096 bytes without NUL"));
        }
    }
    Ok(())
}

/// Checks the names and values of variables.
pub(crate) fn validate_env(env: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in env {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return Err(Error::invalid("env", format!("variable `{}` is not usable", key.escape_debug()))
                .with_hint("names are not empty and hold no `=`; neither part holds NUL"));
        }
    }
    Ok(())
}

/// A request for a new session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSpec {
    pub base: BaseName,
    /// A random id when absent.
    pub id: Option<SessionId>,
    pub quota: Option<ByteCount>,
    pub labels: Labels,
    pub resources: Resources,
    /// `None` is closed, where the runtime can keep that; a policy the runtime cannot keep is refused when it is required.
    pub network: Option<NetworkPolicy>,
    /// Environment of everything that runs in the session, and nothing of the host's.
    pub env: BTreeMap<String, String>,
    /// Time to live, from creation.
    pub time_to_live: Option<Duration>,
    /// What becomes of it when its time is up.
    pub on_expiry: OnExpiry,
    /// Paused by itself when nobody used it for so long; `None` takes the host's default.
    pub idle_timeout: Option<Duration>,
    /// What its root may do inside. Rights the host cannot give are refused.
    pub root_rights: RootRights,
    /// The user that gets `/workspace` while it is empty; root keeps it when absent. Not on the wire.
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

    /// Checks what the types alone cannot: label and environment names.
    pub fn validate(&self) -> Result<()> {
        validate_labels(&self.labels)?;
        validate_env(&self.env)?;
        self.resources.validate()?;
        if let Some(policy) = &self.network {
            policy.validate()?;
        }
        if self.quota == Some(ByteCount(0)) {
            return Err(Error::invalid("quota", "the quota is zero").with_hint("leave it out for no quota"));
        }
        if self.time_to_live.is_some_and(|ttl| ttl.is_zero()) {
            return Err(Error::invalid("timeout", "the time to live is zero").with_hint("leave it out for no limit"));
        }
        if self.idle_timeout.is_some_and(|idle| idle.is_zero()) {
            return Err(Error::invalid("idle_timeout", "the idle time is zero")
                .with_hint("leave it out for the host's default"));
        }
        Ok(())
    }
}

/// What becomes of a session when its time is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExpiry {
    #[default]
    Destroy,
    /// It is paused, with what runs in it where the runtime can freeze that, and has no end set any more.
    Pause,
    /// The same without what runs in it: that is ended.
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
        Self::ALL.into_iter().find(|then| then.as_str() == text).ok_or_else(|| {
            Error::invalid("on_expiry", format!("`{}` is nothing that can happen then", text.escape_debug()))
                .with_hint("use destroy, pause or pause-files")
        })
    }
}

/// What a paused session keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Everything: what runs in it stands still, and goes on where it was.
    #[default]
    Memory,
    /// Its files: what runs in it is ended.
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

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    Creating,
    Active,
    /// Everything in it is frozen, or only its files were kept.
    Paused,
    /// Its volume lies in the object store and takes no space here.
    Hibernated,
    Destroying,
    /// Its storage is really broken; destroy is what is left.
    Failed,
}

impl SessionState {
    pub const ALL: [Self; 6] =
        [Self::Creating, Self::Active, Self::Paused, Self::Hibernated, Self::Destroying, Self::Failed];

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
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
            Error::invalid("state", format!("session state `{}` is unknown", text.escape_debug()))
                .with_hint("use creating, active, paused, hibernated, destroying or failed")
        })
    }
}

/// What is known about a session.
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
    /// What becomes of it then.
    pub on_expiry: OnExpiry,
    /// It is paused by itself when nobody used it for so long.
    pub idle_timeout: Option<Duration>,
    pub quota: Option<ByteCount>,
    /// What it was made with, or changed to; `None` is what the runtime gives by default.
    pub network: Option<NetworkPolicy>,
    /// What its root may do inside.
    pub root_rights: RootRights,
    /// Bytes the session holds beyond its base.
    pub space_used: ByteCount,
    pub turn_count: u64,
    pub snapshot_count: u64,
    /// The session and snapshot this one was forked from.
    pub parent: Option<(SessionId, Option<crate::SnapshotName>)>,
    /// `None` unless it was asked for, and where there is nothing to count.
    pub usage: Option<SessionUsage>,
}

/// What runs in a session uses now. A figure the host cannot count is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Of everything that ran in it since its box started.
    pub cpu_time: Option<Duration>,
    pub memory: Option<ByteCount>,
    pub processes: Option<u64>,
}

impl SessionUsage {
    /// Of a session in which nothing runs.
    pub const NOTHING: Self = Self { cpu_time: Some(Duration::ZERO), memory: Some(ByteCount(0)), processes: Some(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn a_spec_with_a_bad_field_is_refused_and_the_field_is_named() {
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
        for (spec, field) in
            [(bad_env, "env"), (bad_cpus, "resources.cpus"), (bad_label, "labels"), (bad_quota, "quota")]
        {
            let error = spec.validate().unwrap_err();
            assert_eq!((error.code(), error.field()), (ErrorCode::InvalidArgument, Some(field)));
            assert!(error.hint().is_some());
        }
    }
}
