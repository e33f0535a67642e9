//! Resource limits.

use sandbar_core::{ByteCount, Error, Resources, Result};

use super::scalar::{pack_duration, unpack_duration};
use crate::v1;

impl From<&Resources> for v1::Resources {
    fn from(resources: &Resources) -> Self {
        Self {
            cpus: resources.cpus,
            memory: resources.memory.map(ByteCount::get),
            pids: resources.pids,
            open_files: resources.open_files,
            output: resources.output.map(ByteCount::get),
            wall_time: resources
                .wall_time
                .map_or_else(Default::default, pack_duration),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Resources> for Resources {
    type Error = Error;

    fn try_from(wire: v1::Resources) -> Result<Self> {
        let resources = Self {
            cpus: wire.cpus,
            memory: wire.memory.map(ByteCount),
            pids: wire.pids,
            open_files: wire.open_files,
            output: wire.output.map(ByteCount),
            wall_time: unpack_duration("resources.wall_time", wire.wall_time)?,
        };
        resources.validate()?;
        Ok(resources)
    }
}
