//! Bases.

use sandbar_core::{BaseInfo, BaseName, ByteCount, Error, Result};

use super::scalar::{pack_time, unpack_time};
use crate::v1;

impl From<BaseInfo> for v1::Base {
    fn from(base: BaseInfo) -> Self {
        Self {
            name: base.name.into(),
            source: base.source,
            created: pack_time(base.created),
            size: base.size.get(),
            env: base.env,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Base> for BaseInfo {
    type Error = Error;

    fn try_from(wire: v1::Base) -> Result<Self> {
        Ok(Self {
            name: BaseName::new(wire.name)?,
            source: wire.source,
            created: unpack_time("created", wire.created)?,
            size: ByteCount(wire.size),
            env: wire.env,
        })
    }
}
