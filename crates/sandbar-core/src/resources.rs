//! Resource limits of a session or of one call.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ByteCount, Error, Result};

/// Resource limits. A field that is `None` inherits from the layer below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// CPU time per wall time: `1.5` is one and a half cores.
    pub cpus: Option<f64>,
    pub memory: Option<ByteCount>,
    pub pids: Option<u64>,
    pub open_files: Option<u64>,
    /// Output per stream; more is dropped and reported as truncated.
    pub output: Option<ByteCount>,
    #[serde(with = "crate::duration_text::optional")]
    pub wall_time: Option<Duration>,
}

impl Resources {
    /// Returns these limits, with `None` fields taken from `below`.
    #[must_use]
    pub fn or(self, below: &Self) -> Self {
        Self {
            cpus: self.cpus.or(below.cpus),
            memory: self.memory.or(below.memory),
            pids: self.pids.or(below.pids),
            open_files: self.open_files.or(below.open_files),
            output: self.output.or(below.output),
            wall_time: self.wall_time.or(below.wall_time),
        }
    }

    /// Refuses limits of zero.
    pub fn validate(&self) -> Result<()> {
        if self
            .cpus
            .is_some_and(|cpus| !cpus.is_finite() || cpus <= 0.0)
        {
            return Err(
                Error::invalid("resources.cpus", "the number of CPUs is not positive")
                    .with_hint("use a number above 0, for example `0.5` or `2`"),
            );
        }
        let zero = [
            ("resources.memory", self.memory == Some(ByteCount(0))),
            ("resources.pids", self.pids == Some(0)),
            ("resources.open_files", self.open_files == Some(0)),
            (
                "resources.wall_time",
                self.wall_time.is_some_and(|time| time.is_zero()),
            ),
        ];
        match zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((field, _)) => Err(Error::invalid(field, format!("`{field}` is zero"))
                .with_hint("leave it out for the default")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_zero_are_refused() {
        Resources::default().validate().unwrap();
        for bad in [
            Resources {
                cpus: Some(f64::NAN),
                ..Resources::default()
            },
            Resources {
                memory: Some(ByteCount(0)),
                ..Resources::default()
            },
            Resources {
                pids: Some(0),
                ..Resources::default()
            },
            Resources {
                open_files: Some(0),
                ..Resources::default()
            },
            Resources {
                wall_time: Some(Duration::ZERO),
                ..Resources::default()
            },
        ] {
            assert!(
                bad.validate()
                    .unwrap_err()
                    .field()
                    .unwrap()
                    .starts_with("resources.")
            );
        }
    }

    #[test]
    fn limits_are_merged_field_by_field() {
        let host = Resources {
            pids: Some(1024),
            output: Some(ByteCount::mib(10)),
            ..Resources::default()
        };
        let call = Resources {
            pids: Some(5),
            cpus: Some(0.5),
            ..Resources::default()
        };
        let merged = call.or(&host);
        assert_eq!(
            (merged.pids, merged.cpus, merged.output),
            (Some(5), Some(0.5), Some(ByteCount::mib(10)))
        );
    }
}
