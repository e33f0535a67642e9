//! Messages that set the expiry of a session or pause it.

use std::time::Duration;

use sandbar_core::{Keep, OnExpiry, Result, SessionId};

use super::scalar::{known, pack_duration, unpack_duration};
use crate::v1;

impl From<OnExpiry> for v1::OnExpiry {
    fn from(then: OnExpiry) -> Self {
        match then {
            OnExpiry::Destroy => Self::Destroy,
            OnExpiry::Pause => Self::Pause,
            OnExpiry::PauseFiles => Self::PauseFiles,
        }
    }
}

/// Maps `None` to the unspecified value.
pub(super) fn unpack_on_expiry(then: buffa::EnumValue<v1::OnExpiry>) -> Result<Option<OnExpiry>> {
    Ok(match known("on_expiry", then)? {
        v1::OnExpiry::ON_EXPIRY_UNSPECIFIED => None,
        v1::OnExpiry::ON_EXPIRY_DESTROY => Some(OnExpiry::Destroy),
        v1::OnExpiry::ON_EXPIRY_PAUSE => Some(OnExpiry::Pause),
        v1::OnExpiry::ON_EXPIRY_PAUSE_FILES => Some(OnExpiry::PauseFiles),
    })
}

impl v1::SetExpiryRequest {
    pub fn new(id: &SessionId, timeout: Option<Duration>, then: Option<OnExpiry>) -> Self {
        Self {
            session_id: id.as_str().to_owned(),
            timeout: timeout.map_or_else(Default::default, pack_duration),
            on_expiry: then.map_or(v1::OnExpiry::Unspecified, Into::into).into(),
            ..Default::default()
        }
    }

    /// Returns the session, its timeout and the action on expiry.
    pub fn unpack(self) -> Result<(SessionId, Option<Duration>, Option<OnExpiry>)> {
        let timeout = unpack_duration("timeout", self.timeout)?;
        Ok((
            SessionId::new(self.session_id)?,
            timeout,
            unpack_on_expiry(self.on_expiry)?,
        ))
    }
}

impl v1::PauseSessionRequest {
    pub fn new(id: &SessionId, keep: Keep) -> Self {
        let keep = match keep {
            Keep::Memory => v1::Keep::Memory,
            Keep::Files => v1::Keep::Files,
        };
        Self {
            session_id: id.as_str().to_owned(),
            keep: keep.into(),
            ..Default::default()
        }
    }

    /// Returns the session, and whether its processes are kept.
    pub fn unpack(self) -> Result<(SessionId, Keep)> {
        let keep = match known("keep", self.keep)? {
            v1::Keep::KEEP_UNSPECIFIED | v1::Keep::KEEP_MEMORY => Keep::Memory,
            v1::Keep::KEEP_FILES => Keep::Files,
        };
        Ok((SessionId::new(self.session_id)?, keep))
    }
}
