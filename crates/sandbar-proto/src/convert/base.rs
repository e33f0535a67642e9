//! Base messages.

use sandbar_core::{BaseInfo, BaseName, ByteCount, Error, Result, SaveBase, SessionId};

use super::{
    scalar::{pack_time, unpack_time},
    session::optional_snapshot,
};
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

impl v1::SaveBaseRequest {
    /// The wire has no field for a note, which only in-process surfaces of the host use.
    pub fn new(session: &SessionId, request: SaveBase) -> Self {
        Self {
            session_id: session.as_str().to_owned(),
            name: request.name.into(),
            snapshot: request.from.map(String::from).unwrap_or_default(),
            env: request.env,
            ..Default::default()
        }
    }

    /// Returns the session and the request.
    pub fn unpack(self) -> Result<(SessionId, SaveBase)> {
        let session = SessionId::new(self.session_id)?;
        let request = SaveBase {
            name: BaseName::new(self.name).map_err(|error| error.with_field("name"))?,
            from: optional_snapshot("snapshot", self.snapshot)?,
            env: self.env,
            note: None,
        };
        request.validate()?;
        Ok((session, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_base_request_survives_the_wire() {
        let session = SessionId::new("box").unwrap();
        let mut request = SaveBase::new(BaseName::new("warm").unwrap());
        assert_eq!(
            v1::SaveBaseRequest::new(&session, request.clone())
                .unpack()
                .unwrap(),
            (session.clone(), request.clone())
        );
        request.from = Some("clean".parse().unwrap());
        request.env.insert("A".into(), "1".into());
        assert_eq!(
            v1::SaveBaseRequest::new(&session, request.clone())
                .unpack()
                .unwrap(),
            (session.clone(), request.clone())
        );
        request.env.insert("A=B".into(), "1".into());
        assert_eq!(
            v1::SaveBaseRequest::new(&session, request)
                .unpack()
                .unwrap_err()
                .field(),
            Some("env")
        );
        let nameless = v1::SaveBaseRequest {
            session_id: "box".into(),
            ..Default::default()
        };
        assert_eq!(nameless.unpack().unwrap_err().field(), Some("name"));
    }
}
