//! Requests for new environments.

use std::{collections::BTreeMap, time::Duration};

use sandbar_core::{
    BaseName, ByteCount, Error, Labels, NetworkPolicy, Resources, SessionId, SessionSpec,
};

use crate::{Feature, Result, SnapshotId};

/// Request for a new environment.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvironmentConfig {
    /// Base image, named as the provider does. `host` is the machine's own programs, if the
    /// provider supports it.
    pub base_image: String,
    pub session_id: SessionId,
    pub labels: Labels,
    /// Features that the caller needs. Without one of them no environment is created.
    pub required: Vec<Feature>,
    pub options: EnvironmentOptions,
}

impl EnvironmentConfig {
    pub fn new(base_image: impl Into<String>, session_id: SessionId) -> Self {
        Self {
            base_image: base_image.into(),
            session_id,
            labels: Labels::new(),
            required: Vec::new(),
            options: EnvironmentOptions::default(),
        }
    }

    #[must_use]
    pub fn require(mut self, features: impl IntoIterator<Item = Feature>) -> Self {
        self.required.extend(features);
        self
    }

    /// Returns the validated request as a session spec.
    pub(crate) fn session_spec(&self) -> Result<SessionSpec> {
        let base = BaseName::new(self.base_image.as_str()).map_err(|error| {
            Error::invalid("base_image", error.message().to_owned())
                .with_hint(error.hint().unwrap_or_default())
        })?;
        let options = self.options.clone();
        let spec = SessionSpec {
            id: Some(self.session_id.clone()),
            quota: options.quota,
            labels: self.labels.clone(),
            resources: options.resources,
            network: options.network,
            env: options.env,
            time_to_live: options.time_to_live,
            idle_timeout: options.idle_timeout,
            ..SessionSpec::new(base)
        };
        spec.validate()?;
        Ok(spec)
    }
}

/// Optional settings. A provider refuses those it does not support with `InvalidArgument`, which
/// names the field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentOptions {
    /// Environment variables of all processes.
    pub env: BTreeMap<String, String>,
    pub resources: Resources,
    /// `None` is the provider's default.
    pub network: Option<NetworkPolicy>,
    pub quota: Option<ByteCount>,
    /// The environment is destroyed after this time.
    pub time_to_live: Option<Duration>,
    /// The environment is paused after this time without activity.
    pub idle_timeout: Option<Duration>,
}

/// Request for a fork of an environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForkConfig {
    /// Id of the fork; a random one when absent.
    pub session_id: Option<SessionId>,
    /// Snapshot to start from; the current state when absent.
    pub from: Option<SnapshotId>,
    /// Added to the labels of the source.
    pub labels: Labels,
}
