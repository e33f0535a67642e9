//! Capabilities of an environment, each with the reason if it is missing.

use std::{fmt, time::Duration};

use sandbar_core::Capability;

use crate::{EnvironmentError, Result};

/// Optional feature of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// `create_snapshot`, `turn_complete` and `list_snapshots`.
    Snapshots,
    Rollback,
    /// `pause` and `resume`.
    Pause,
    /// Tools report progress while they run.
    StreamingProgress,
    /// Tools on files run outside of the sandbox.
    TierRouting,
    Fork,
}

impl Feature {
    pub const ALL: [Self; 6] = [
        Self::Snapshots,
        Self::Rollback,
        Self::Pause,
        Self::StreamingProgress,
        Self::TierRouting,
        Self::Fork,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Snapshots => "snapshots",
            Self::Rollback => "rollback",
            Self::Pause => "pause",
            Self::StreamingProgress => "streaming_progress",
            Self::TierRouting => "tier_routing",
            Self::Fork => "fork",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Capabilities of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvironmentCapabilities {
    pub snapshots: Capability,
    pub rollback: Capability,
    pub pause: Capability,
    pub streaming_progress: Capability,
    pub tier_routing: Capability,
    pub fork: Capability,
    /// Maximum lifetime of an environment; `None` if unlimited or unknown.
    pub max_session_duration: Option<Duration>,
    /// Maximum number of concurrent environments; `None` if unlimited or unknown.
    pub concurrent_sessions: Option<u64>,
    /// Description of the isolation of processes.
    pub isolation: String,
}

impl EnvironmentCapabilities {
    pub const fn of(&self, feature: Feature) -> &Capability {
        match feature {
            Feature::Snapshots => &self.snapshots,
            Feature::Rollback => &self.rollback,
            Feature::Pause => &self.pause,
            Feature::StreamingProgress => &self.streaming_progress,
            Feature::TierRouting => &self.tier_routing,
            Feature::Fork => &self.fork,
        }
    }

    pub const fn has(&self, feature: Feature) -> bool {
        self.of(feature).is_yes()
    }

    /// Returns `CapabilityNotSupported` with the reason if the feature is missing.
    pub fn require(&self, feature: Feature) -> Result<()> {
        match self.of(feature) {
            Capability::Yes => Ok(()),
            Capability::No(reason) => Err(EnvironmentError::CapabilityNotSupported {
                feature,
                reason: reason.clone(),
            }),
        }
    }

    /// Like [`require`](Self::require) for several features; names the first missing one.
    pub fn require_all(&self, features: &[Feature]) -> Result<()> {
        features
            .iter()
            .try_for_each(|feature| self.require(*feature))
    }
}
