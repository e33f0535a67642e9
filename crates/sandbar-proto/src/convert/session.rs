//! Session messages.

use sandbar_core::{
    BaseName, ByteCount, Error, ForkRequest, NetworkPolicy, PageRequest, Result, RootRights,
    SessionFilter, SessionId, SessionInfo, SessionSpec, SessionState, SessionUsage, SnapshotName,
};

use super::{
    expiry::unpack_on_expiry,
    page::{pack_page, unpack_page},
    scalar::{
        known, missing, pack_duration, pack_time, unpack_duration, unpack_optional_time,
        unpack_time,
    },
};
use crate::v1;

impl From<SessionState> for v1::SessionState {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::Creating => Self::Creating,
            SessionState::Active => Self::Active,
            SessionState::Paused => Self::Paused,
            SessionState::Hibernated => Self::Hibernated,
            SessionState::Destroying => Self::Destroying,
            SessionState::Failed => Self::Failed,
        }
    }
}

/// Maps `None` to the unspecified state.
pub(super) fn unpack_state(state: v1::SessionState) -> Option<SessionState> {
    match state {
        v1::SessionState::SESSION_STATE_UNSPECIFIED => None,
        v1::SessionState::SESSION_STATE_CREATING => Some(SessionState::Creating),
        v1::SessionState::SESSION_STATE_ACTIVE => Some(SessionState::Active),
        v1::SessionState::SESSION_STATE_PAUSED => Some(SessionState::Paused),
        v1::SessionState::SESSION_STATE_HIBERNATED => Some(SessionState::Hibernated),
        v1::SessionState::SESSION_STATE_DESTROYING => Some(SessionState::Destroying),
        v1::SessionState::SESSION_STATE_FAILED => Some(SessionState::Failed),
    }
}

impl From<SessionInfo> for v1::Session {
    fn from(session: SessionInfo) -> Self {
        Self {
            session_id: session.id.into(),
            state: v1::SessionState::from(session.state).into(),
            base_snapshot: session.base.into(),
            labels: session.labels,
            storage_backend: session.storage.as_str().to_owned(),
            container_runtime: session.runtime.as_str().to_owned(),
            created: pack_time(session.created),
            expires: session.expires.map_or_else(Default::default, pack_time),
            on_expiry: v1::OnExpiry::from(session.on_expiry).into(),
            idle_timeout: session
                .idle_timeout
                .map_or_else(Default::default, pack_duration),
            quota: session.quota.map(ByteCount::get),
            space_used: session.space_used.get(),
            turn_count: session.turn_count,
            snap_count: session.snapshot_count,
            network: session.network.map(v1::NetworkPolicy::from).into(),
            parent: session
                .parent
                .map(|(id, snapshot)| v1::SessionParent {
                    session_id: id.into(),
                    snapshot: snapshot.map(String::from).unwrap_or_default(),
                    ..Default::default()
                })
                .into(),
            usage: session.usage.map(v1::SessionUsage::from).into(),
            root_rights: v1::RootRights::from(session.root_rights).into(),
            ..Default::default()
        }
    }
}

impl From<RootRights> for v1::RootRights {
    fn from(rights: RootRights) -> Self {
        match rights {
            RootRights::Bare => Self::Bare,
            RootRights::Own => Self::Own,
        }
    }
}

impl From<v1::RootRights> for RootRights {
    fn from(rights: v1::RootRights) -> Self {
        match rights {
            v1::RootRights::ROOT_RIGHTS_UNSPECIFIED | v1::RootRights::ROOT_RIGHTS_BARE => {
                Self::Bare
            }
            v1::RootRights::ROOT_RIGHTS_OWN => Self::Own,
        }
    }
}

impl From<SessionUsage> for v1::SessionUsage {
    fn from(usage: SessionUsage) -> Self {
        Self {
            cpu_time: usage.cpu_time.map_or_else(Default::default, pack_duration),
            memory: usage.memory.map(ByteCount::get),
            processes: usage.processes,
            ..Default::default()
        }
    }
}

impl TryFrom<v1::SessionUsage> for SessionUsage {
    type Error = Error;

    fn try_from(wire: v1::SessionUsage) -> Result<Self> {
        Ok(Self {
            cpu_time: unpack_duration("usage.cpu_time", wire.cpu_time)?,
            memory: wire.memory.map(ByteCount),
            processes: wire.processes,
        })
    }
}

impl TryFrom<v1::Session> for SessionInfo {
    type Error = Error;

    fn try_from(wire: v1::Session) -> Result<Self> {
        Ok(Self {
            id: SessionId::new(wire.session_id)?,
            state: unpack_state(known("state", wire.state)?).ok_or_else(|| missing("state"))?,
            base: BaseName::new(wire.base_snapshot)?,
            labels: wire.labels,
            storage: wire.storage_backend.parse()?,
            runtime: wire.container_runtime.parse()?,
            created: unpack_time("created", wire.created)?,
            expires: unpack_optional_time("expires", wire.expires)?,
            on_expiry: unpack_on_expiry(wire.on_expiry)?.unwrap_or_default(),
            idle_timeout: unpack_duration("idle_timeout", wire.idle_timeout)?,
            quota: wire.quota.map(ByteCount),
            network: wire
                .network
                .into_option()
                .map(NetworkPolicy::try_from)
                .transpose()?,
            space_used: ByteCount(wire.space_used),
            turn_count: wire.turn_count,
            snapshot_count: wire.snap_count,
            parent: match wire.parent.into_option() {
                None => None,
                Some(parent) => Some((
                    SessionId::new(parent.session_id)?,
                    optional_snapshot("snapshot", parent.snapshot)?,
                )),
            },
            usage: wire
                .usage
                .into_option()
                .map(SessionUsage::try_from)
                .transpose()?,
            root_rights: known("root_rights", wire.root_rights)?.into(),
        })
    }
}

impl From<SessionSpec> for v1::CreateSessionRequest {
    fn from(spec: SessionSpec) -> Self {
        Self {
            base_snapshot: spec.base.into(),
            session_id: spec.id.map(String::from).unwrap_or_default(),
            quota: spec.quota.map(ByteCount::get),
            labels: spec.labels,
            resources: v1::Resources::from(&spec.resources).into(),
            network: spec.network.map(v1::NetworkPolicy::from).into(),
            env: spec.env,
            timeout: spec
                .time_to_live
                .map_or_else(Default::default, pack_duration),
            on_expiry: v1::OnExpiry::from(spec.on_expiry).into(),
            idle_timeout: spec
                .idle_timeout
                .map_or_else(Default::default, pack_duration),
            root_rights: v1::RootRights::from(spec.root_rights).into(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::CreateSessionRequest> for SessionSpec {
    type Error = Error;

    fn try_from(wire: v1::CreateSessionRequest) -> Result<Self> {
        let spec = Self {
            base: BaseName::new(wire.base_snapshot)?,
            id: if wire.session_id.is_empty() {
                None
            } else {
                Some(SessionId::new(wire.session_id)?)
            },
            quota: wire.quota.map(ByteCount),
            labels: wire.labels,
            resources: wire
                .resources
                .into_option()
                .unwrap_or_default()
                .try_into()?,
            network: wire
                .network
                .into_option()
                .map(NetworkPolicy::try_from)
                .transpose()?,
            env: wire.env,
            time_to_live: unpack_duration("timeout", wire.timeout)?,
            on_expiry: unpack_on_expiry(wire.on_expiry)?.unwrap_or_default(),
            idle_timeout: unpack_duration("idle_timeout", wire.idle_timeout)?,
            root_rights: known("root_rights", wire.root_rights)?.into(),
            workspace_user: None,
        };
        spec.validate()?;
        Ok(spec)
    }
}

impl v1::ListSessionsRequest {
    pub fn new(filter: &SessionFilter, page: &PageRequest) -> Self {
        let (page_size, page_token) = pack_page(page);
        Self {
            labels: filter.labels.clone(),
            state: filter
                .state
                .map_or(v1::SessionState::Unspecified, Into::into)
                .into(),
            page_size,
            page_token,
            include_usage: filter.with_usage,
            ..Default::default()
        }
    }

    /// Returns filter and page.
    pub fn unpack(self) -> Result<(SessionFilter, PageRequest)> {
        let filter = SessionFilter {
            labels: self.labels,
            state: unpack_state(known("state", self.state)?),
            ids: None,
            with_usage: self.include_usage,
        };
        Ok((filter, unpack_page(self.page_size, self.page_token)?))
    }
}

impl v1::ForkSessionRequest {
    pub fn new(source: &SessionId, request: ForkRequest) -> Self {
        Self {
            session_id: source.as_str().to_owned(),
            snapshot: request.from.map(String::from).unwrap_or_default(),
            count: request.count.try_into().unwrap_or(u32::MAX),
            session_ids: request.ids.into_iter().map(String::from).collect(),
            labels: request.labels,
            ..Default::default()
        }
    }

    /// Returns the source session and the request.
    pub fn unpack(self) -> Result<(SessionId, ForkRequest)> {
        let source = SessionId::new(self.session_id)?;
        let ids = self
            .session_ids
            .into_iter()
            .map(|id| SessionId::new(id).map_err(|error| error.with_field("session_ids")))
            .collect::<Result<Vec<_>>>()?;
        let count = match self.count {
            0 => ids.len().max(1),
            count => usize::try_from(count).unwrap_or(usize::MAX),
        };
        if count > ForkRequest::MAX_COUNT {
            return Err(
                Error::invalid("count", format!("count {count} is too large"))
                    .with_hint(format!("use at most {}", ForkRequest::MAX_COUNT)),
            );
        }
        if !ids.is_empty() && ids.len() != count {
            return Err(Error::invalid(
                "session_ids",
                format!("{} ids are set for {count} copies", ids.len()),
            )
            .with_hint("set one id for each copy, or none"));
        }
        Ok((
            source,
            ForkRequest {
                from: optional_snapshot("snapshot", self.snapshot)?,
                count,
                ids,
                labels: self.labels,
            },
        ))
    }
}

/// Parses an optional snapshot name.
pub(super) fn optional_snapshot(field: &'static str, name: String) -> Result<Option<SnapshotName>> {
    if name.is_empty() {
        return Ok(None);
    }
    SnapshotName::new(name)
        .map(Some)
        .map_err(|error| error.with_field(field))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use sandbar_core::{Keep, OnExpiry, Resources, RuntimeKind, StorageKind};

    use super::*;

    #[test]
    fn session_survives_the_wire() {
        let session = SessionInfo {
            id: SessionId::new("box").unwrap(),
            state: SessionState::Active,
            base: BaseName::new("host").unwrap(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            storage: StorageKind::LocalDisk,
            runtime: RuntimeKind::None,
            created: Timestamp::new(1_700_000_000, 123_456_789).unwrap(),
            expires: Some(Timestamp::new(1_800_000_000, 0).unwrap()),
            on_expiry: OnExpiry::Pause,
            idle_timeout: Some(Duration::from_secs(90)),
            quota: Some(ByteCount::gib(2)),
            network: Some("allow=example.com:443".parse().unwrap()),
            space_used: ByteCount(17),
            turn_count: 4,
            snapshot_count: 5,
            parent: Some((
                SessionId::new("mother").unwrap(),
                Some(SnapshotName::new("clean").unwrap()),
            )),
            usage: Some(SessionUsage {
                cpu_time: Some(Duration::from_micros(7)),
                memory: None,
                processes: Some(3),
            }),
            root_rights: RootRights::Own,
        };
        for state in SessionState::ALL {
            let sent = SessionInfo {
                state,
                ..session.clone()
            };
            assert_eq!(
                SessionInfo::try_from(v1::Session::from(sent.clone())).unwrap(),
                sent
            );
        }
        let idle = SessionInfo {
            usage: Some(SessionUsage::NOTHING),
            ..session.clone()
        };
        assert_eq!(
            SessionInfo::try_from(v1::Session::from(idle.clone())).unwrap(),
            idle
        );
        let plain = SessionInfo {
            expires: None,
            quota: None,
            parent: None,
            usage: None,
            ..session
        };
        assert_eq!(
            SessionInfo::try_from(v1::Session::from(plain.clone())).unwrap(),
            plain
        );
    }

    #[test]
    fn session_spec_survives_the_wire() {
        let mut spec = SessionSpec::new(BaseName::new("host").unwrap());
        assert_eq!(
            SessionSpec::try_from(v1::CreateSessionRequest::from(spec.clone())).unwrap(),
            spec
        );
        spec.id = Some(SessionId::new("box").unwrap());
        spec.quota = Some(ByteCount::mib(5));
        spec.labels.insert("k".into(), "v".into());
        spec.resources = Resources {
            cpus: Some(1.5),
            memory: Some(ByteCount::mib(512)),
            pids: Some(9),
            open_files: Some(10),
            output: Some(ByteCount(0)),
            wall_time: Some(Duration::from_millis(1500)),
        };
        spec.network = Some(NetworkPolicy::full());
        spec.env.insert("A".into(), "1".into());
        spec.time_to_live = Some(Duration::from_mins(1));
        spec.on_expiry = OnExpiry::Pause;
        spec.idle_timeout = Some(Duration::from_secs(7));
        spec.root_rights = RootRights::Own;
        assert_eq!(
            SessionSpec::try_from(v1::CreateSessionRequest::from(spec.clone())).unwrap(),
            spec
        );
    }

    #[test]
    fn session_requests_survive_the_wire() {
        let id = SessionId::new("box").unwrap();
        for keep in [Keep::Memory, Keep::Files] {
            assert_eq!(
                v1::PauseSessionRequest::new(&id, keep).unpack().unwrap(),
                (id.clone(), keep)
            );
        }
        for (timeout, then) in [
            (None, None),
            (Some(Duration::ZERO), Some(OnExpiry::Destroy)),
            (None, Some(OnExpiry::Pause)),
        ] {
            assert_eq!(
                v1::SetExpiryRequest::new(&id, timeout, then)
                    .unpack()
                    .unwrap(),
                (id.clone(), timeout, then)
            );
        }
    }

    #[test]
    fn invalid_session_request_names_the_field() {
        let good = || v1::CreateSessionRequest {
            base_snapshot: "host".into(),
            ..Default::default()
        };
        let seconds = |seconds| v1::CreateSessionRequest {
            timeout: buffa_types::google::protobuf::Duration {
                seconds,
                ..Default::default()
            }
            .into(),
            ..good()
        };
        let cases = [
            (v1::CreateSessionRequest::default(), "base_snapshot"),
            (
                v1::CreateSessionRequest {
                    base_snapshot: "../etc".into(),
                    ..good()
                },
                "base_snapshot",
            ),
            (
                v1::CreateSessionRequest {
                    session_id: "a/b".into(),
                    ..good()
                },
                "session_id",
            ),
            (
                v1::CreateSessionRequest {
                    quota: Some(0),
                    ..good()
                },
                "quota",
            ),
            (seconds(-1), "timeout"),
            (seconds(0), "timeout"),
            (seconds(i64::MAX), "timeout"),
            (
                v1::CreateSessionRequest {
                    network: v1::NetworkPolicy {
                        allow_list: vec!["http://x".into()],
                        ..Default::default()
                    }
                    .into(),
                    ..good()
                },
                "network.allow_list",
            ),
            (
                v1::CreateSessionRequest {
                    resources: v1::Resources {
                        cpus: Some(f64::NAN),
                        ..Default::default()
                    }
                    .into(),
                    ..good()
                },
                "resources.cpus",
            ),
        ];
        for (wire, field) in cases {
            let error = SessionSpec::try_from(wire).unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn fork_count_follows_the_ids() {
        let request = |count, ids: &[&str]| v1::ForkSessionRequest {
            session_id: "box".into(),
            count,
            session_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..Default::default()
        };
        assert_eq!(request(0, &[]).unpack().unwrap().1.count, 1);
        assert_eq!(request(0, &["a", "b"]).unpack().unwrap().1.count, 2);
        assert_eq!(request(1000, &[]).unpack().unwrap().1.count, 1000);
        assert_eq!(
            request(1001, &[]).unpack().unwrap_err().field(),
            Some("count")
        );
        assert_eq!(
            request(3, &["a", "b"]).unpack().unwrap_err().field(),
            Some("session_ids")
        );
        assert_eq!(
            request(0, &["a", ".."]).unpack().unwrap_err().field(),
            Some("session_ids")
        );
    }
}
