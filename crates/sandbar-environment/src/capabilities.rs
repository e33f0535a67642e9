//! What an environment can do, as facts with reasons.

use std::{fmt, time::Duration};

use sandbar_core::Capability;

use crate::{EnvironmentError, Result};

/// Something an environment can or cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// `create_snapshot`, `turn_complete` and `list_snapshots`.
    Snapshots,
    Rollback,
    /// `pause` and `resume`.
    Pause,
    /// Tools tell what they do while they do it.
    StreamingProgress,
    /// Tools on files do not go through the sandbox.
    TierRouting,
    Fork,
}

impl Feature {
    pub const ALL: [Self; 6] =
        [Self::Snapshots, Self::Rollback, Self::Pause, Self::StreamingProgress, Self::TierRouting, Self::Fork];

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

/// What an environment can do.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvironmentCapabilities {
    pub snapshots: Capability,
    pub rollback: Capability,
    pub pause: Capability,
    pub streaming_progress: Capability,
    pub tier_routing: Capability,
    pub fork: Capability,
    /// The longest an environment may live; `None` is no limit, or none that is known.
    pub max_session_duration: Option<Duration>,
    /// How many may live at once; `None` is no limit, or none that is known.
    pub concurrent_sessions: Option<u64>,
    /// The boundary around what runs, in words.
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

    /// `CapabilityNotSupported`, with the reason, for a feature that is not there.
    pub fn require(&self, feature: Feature) -> Result<()> {
        match self.of(feature) {
            Capability::Yes => Ok(()),
            Capability::No(reason) => Err(EnvironmentError::CapabilityNotSupported { feature, reason: reason.clone() }),
        }
    }

    /// As [`require`](Self::require), for all of them; the first that is missing is named.
    pub fn require_all(&self, features: &[Feature]) -> Result<()> {
        features.iter().try_for_each(|feature| self.require(*feature))
    }
}
