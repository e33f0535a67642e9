//! Limits of a session or of one call, merged field by field.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ByteCount;

/// Limits. A field that is `None` is not decided here; the layer below decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// CPU time per wall time: `1.5` is one and a half cores.
    pub cpus: Option<f64>,
    pub memory: Option<ByteCount>,
    pub pids: Option<u64>,
    pub open_files: Option<u64>,
    /// Output kept per stream; what goes beyond it is dropped and reported as truncated.
    pub output: Option<ByteCount>,
    pub wall_time: Option<Duration>,
}

impl Resources {
    /// These limits, with the fields that are open here taken from `below`.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_overrides_field_by_field() {
        let host = Resources { pids: Some(1024), output: Some(ByteCount::mib(10)), ..Resources::default() };
        let call = Resources { pids: Some(5), cpus: Some(0.5), ..Resources::default() };
        let merged = call.or(&host);
        assert_eq!((merged.pids, merged.cpus, merged.output), (Some(5), Some(0.5), Some(ByteCount::mib(10))));
    }
}
