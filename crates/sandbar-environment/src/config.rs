//! What environments are made from.

use std::{collections::BTreeMap, time::Duration};

use sandbar_core::{BaseName, ByteCount, Error, Labels, NetworkPolicy, Resources, SessionId, SessionSpec};

use crate::{Feature, Result, SnapshotId};

/// A request for a new environment.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvironmentConfig {
    /// What it starts from, in the provider's words. `host` is the machine's own programs where the provider has that.
    pub base_image: String,
    pub session_id: SessionId,
    pub labels: Labels,
    /// What the caller cannot do without. An environment that lacks one of them is not made.
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

    /// The same wishes in Sandbar's words, checked.
    pub(crate) fn session_spec(&self) -> Result<SessionSpec> {
        let base = BaseName::new(self.base_image.as_str()).map_err(|error| {
            Error::invalid("base_image", error.message().to_owned()).with_hint(error.hint().unwrap_or_default())
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

/// What can be said beyond that. A provider refuses, with `InvalidArgument` naming the field, what it cannot keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentOptions {
    /// Environment of everything that runs.
    pub env: BTreeMap<String, String>,
    pub resources: Resources,
    /// `None` is what the provider does by itself.
    pub network: Option<NetworkPolicy>,
    pub quota: Option<ByteCount>,
    /// It ends by itself after so long.
    pub time_to_live: Option<Duration>,
    /// It is paused by itself when nobody used it for so long.
    pub idle_timeout: Option<Duration>,
}

/// A request for a copy of an environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForkConfig {
    /// A random id when absent.
    pub session_id: Option<SessionId>,
    /// The snapshot to start from; now when absent.
    pub from: Option<SnapshotId>,
    /// Added to the labels of the source.
    pub labels: Labels,
}
