//! Rows of sessions and snapshots.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sandbar_core::{
    BaseName, ByteCount, Error, Labels, NetworkPolicy, OnExpiry, Resources, Result, RootRights, SessionId,
    SessionState, SnapshotInfo, SnapshotKind, SnapshotName,
};
use sandbar_sqlite::{Database, Row, Value};

use super::{Ground, StateStore, from_json, to_json};

/// A session as it is remembered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionRecord {
    pub(crate) id: SessionId,
    pub(crate) state: SessionState,
    pub(crate) base: BaseName,
    /// What its volume stands on, when that is not its base: a saved base may be gone, this may not.
    pub(crate) ground: Option<Ground>,
    pub(crate) labels: Labels,
    pub(crate) resources: Resources,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) network: Option<NetworkPolicy>,
    pub(crate) quota: Option<ByteCount>,
    pub(crate) created: Timestamp,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) on_expiry: OnExpiry,
    pub(crate) idle_timeout: Option<Duration>,
    /// Turns completed, ever. It never goes back.
    pub(crate) turns: u64,
    pub(crate) parent: Option<(SessionId, Option<SnapshotName>)>,
    /// The snapshot the volume stands on.
    pub(crate) head: Option<SnapshotName>,
    /// Where its volume lies in the object store, while it is hibernated.
    pub(crate) pack: Option<String>,
    /// What its root may do inside.
    pub(crate) root_rights: RootRights,
}

/// The statements that read whole sessions, in the column order of `read_session`.
const ONE: &str = "SELECT id, state, base, labels, resources, env, network, quota, created, expires, turns, \
                   parent_session, parent_snapshot, head_snapshot, idle_timeout, pack, on_expiry, ground, root_rights FROM session \
                   WHERE id = ?1";
const ALL: &str = "SELECT id, state, base, labels, resources, env, network, quota, created, expires, turns, \
                   parent_session, parent_snapshot, head_snapshot, idle_timeout, pack, on_expiry, ground, root_rights FROM session \
                   ORDER BY created, id";

pub(super) fn time(nanoseconds: i64) -> Result<Timestamp> {
    Timestamp::from_nanosecond(nanoseconds.into())
        .map_err(|error| Error::internal("a time in the state database is out of range").with_source(error))
}

pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn time_column(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| nanoseconds(time).into())
}

pub(super) fn integer(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A policy; version 3 and before wrote `none` or `full`.
fn read_policy(text: &str) -> Result<NetworkPolicy> {
    if text.starts_with('{') { from_json(text) } else { text.parse() }
}

fn policy_column(policy: Option<&NetworkPolicy>) -> Result<Value> {
    policy.map_or(Ok(Value::Null), to_json)
}

fn read_session(row: &Row<'_>) -> Result<SessionRecord> {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let parent_snapshot = row.optional_text(12)?.map(SnapshotName::new).transpose()?;
    Ok(SessionRecord {
        id: SessionId::new(row.text(0)?)?,
        state: row.text(1)?.parse()?,
        base: BaseName::new(row.text(2)?)?,
        labels: from_json(&row.text(3)?)?,
        resources: from_json(&row.text(4)?)?,
        env: from_json(&row.text(5)?)?,
        network: row.optional_text(6)?.map(|text| read_policy(&text)).transpose()?,
        quota: row.optional_integer(7)?.map(|quota| ByteCount(unsigned(quota))),
        created: time(row.integer(8)?)?,
        expires: row.optional_integer(9)?.map(time).transpose()?,
        turns: unsigned(row.integer(10)?),
        parent: row.optional_text(11)?.map(SessionId::new).transpose()?.map(|session| (session, parent_snapshot)),
        head: row.optional_text(13)?.map(SnapshotName::new).transpose()?,
        idle_timeout: row.optional_integer(14)?.map(|millis| Duration::from_millis(unsigned(millis))),
        pack: row.optional_text(15)?,
        on_expiry: row.text(16)?.parse()?,
        ground: row.optional_text(17)?.map(|text| from_json(&text)).transpose()?,
        root_rights: row.text(18)?.parse()?,
    })
}

impl SessionRecord {
    /// The base of the storage its volume stands on.
    pub(crate) fn stands_on(&self) -> &BaseName {
        self.ground.as_ref().map_or(&self.base, |ground| &ground.base)
    }

    /// Adds the session, inside a transaction.
    pub(crate) fn insert(&self, database: &mut Database) -> Result<()> {
        let sql = "INSERT INTO session (id, state, base, labels, resources, env, network, quota, created, expires, turns, \
                   parent_session, parent_snapshot, head_snapshot, idle_timeout, pack, on_expiry, ground, root_rights) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
        let (parent, parent_snapshot) = match &self.parent {
            Some((session, snapshot)) => (Some(session.as_str()), snapshot.as_ref().map(SnapshotName::as_str)),
            None => (None, None),
        };
        let values = [
            self.id.as_str().into(),
            self.state.as_str().into(),
            self.base.as_str().into(),
            to_json(&self.labels)?,
            to_json(&self.resources)?,
            to_json(&self.env)?,
            policy_column(self.network.as_ref())?,
            self.quota.map_or(Value::Null, |quota| integer(quota.get())),
            nanoseconds(self.created).into(),
            time_column(self.expires),
            integer(self.turns),
            parent.into(),
            parent_snapshot.into(),
            self.head.as_ref().map(SnapshotName::as_str).into(),
            self.idle_timeout.map_or(Value::Null, |idle| integer(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX))),
            self.pack.as_deref().into(),
            self.on_expiry.as_str().into(),
            self.ground.as_ref().map_or(Ok(Value::Null), to_json)?,
            self.root_rights.as_str().into(),
        ];
        database.execute(sql, &values).map(|_| ())
    }
}

impl StateStore {
    pub(crate) fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>> {
        self.with(|database| database.query_optional(ONE, &[id.as_str().into()], read_session))
    }

    /// Every session, oldest first.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionRecord>> {
        self.with(|database| database.query(ALL, &[], read_session))
    }

    /// Since when each session exists.
    pub(crate) fn session_births(&self) -> Result<Vec<(SessionId, Timestamp)>> {
        let read = |row: &Row<'_>| Ok((SessionId::new(row.text(0)?)?, time(row.integer(1)?)?));
        self.with(|database| database.query("SELECT id, created FROM session", &[], read))
    }

    /// How many sessions there are in each state.
    pub(crate) fn session_counts(&self) -> Result<BTreeMap<String, u64>> {
        let sql = "SELECT state, count(*) FROM session GROUP BY state";
        let counts = self.with(|database| database.query(sql, &[], |row| Ok((row.text(0)?, row.integer(1)?))))?;
        Ok(counts.into_iter().map(|(state, count)| (state, u64::try_from(count).unwrap_or(0))).collect())
    }

    pub(crate) fn set_state(&self, id: &SessionId, state: SessionState) -> Result<()> {
        let sql = "UPDATE session SET state = ?2 WHERE id = ?1";
        self.with(|database| database.execute(sql, &[id.as_str().into(), state.as_str().into()]).map(|_| ()))
    }

    /// The session is paused, and has this time left.
    pub(crate) fn set_paused(&self, id: &SessionId, expires: Option<Timestamp>) -> Result<()> {
        let sql = "UPDATE session SET state = ?2, expires = ?3 WHERE id = ?1";
        let values = [id.as_str().into(), SessionState::Paused.as_str().into(), time_column(expires)];
        self.with(|database| database.execute(sql, &values).map(|_| ()))
    }

    /// When its time is up; without `then`, the same becomes of it as before.
    pub(crate) fn set_expiry(&self, id: &SessionId, expires: Option<Timestamp>, then: Option<OnExpiry>) -> Result<()> {
        let sql = "UPDATE session SET expires = ?2, on_expiry = coalesce(?3, on_expiry) WHERE id = ?1";
        let values = [id.as_str().into(), time_column(expires), then.map(OnExpiry::as_str).into()];
        self.with(|database| database.execute(sql, &values).map(|_| ()))
    }

    pub(crate) fn set_network(&self, id: &SessionId, policy: Option<&NetworkPolicy>) -> Result<()> {
        let sql = "UPDATE session SET network = ?2 WHERE id = ?1";
        let policy = policy_column(policy)?;
        self.with(|database| database.execute(sql, &[id.as_str().into(), policy]).map(|_| ()))
    }

    /// Snapshots of a session, oldest first.
    pub(crate) fn snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotInfo>> {
        let sql = "SELECT name, kind, created, parent FROM snapshot WHERE session = ?1 ORDER BY number";
        self.with(|database| {
            database.query(sql, &[id.as_str().into()], |row| {
                Ok(SnapshotInfo {
                    name: SnapshotName::new(row.text(0)?)?,
                    kind: row.text(1)?.parse::<SnapshotKind>()?,
                    created: time(row.integer(2)?)?,
                    parent: row.optional_text(3)?.map(SnapshotName::new).transpose()?,
                    space_used: None,
                })
            })
        })
    }

    pub(crate) fn snapshot_count(&self, id: &SessionId) -> Result<u64> {
        let sql = "SELECT count(*) FROM snapshot WHERE session = ?1";
        let count = self.with(|database| database.query_optional(sql, &[id.as_str().into()], |row| row.integer(0)))?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }
}

/// Removes a session with its snapshots, inside a transaction.
pub(crate) fn delete_session(database: &mut Database, id: &SessionId) -> Result<()> {
    database.execute("DELETE FROM session WHERE id = ?1", &[id.as_str().into()]).map(|_| ())
}

/// Adds a snapshot and makes it the one the volume stands on, inside a transaction.
pub(crate) fn insert_snapshot(database: &mut Database, id: &SessionId, snapshot: &SnapshotInfo) -> Result<()> {
    let sql = "INSERT INTO snapshot (session, name, kind, created, parent) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = [
        id.as_str().into(),
        snapshot.name.as_str().into(),
        snapshot.kind.as_str().into(),
        nanoseconds(snapshot.created).into(),
        snapshot.parent.as_ref().map(SnapshotName::as_str).into(),
    ];
    database.execute(sql, &values)?;
    set_head(database, id, Some(&snapshot.name))
}

pub(crate) fn set_head(database: &mut Database, id: &SessionId, head: Option<&SnapshotName>) -> Result<()> {
    let sql = "UPDATE session SET head_snapshot = ?2 WHERE id = ?1";
    database.execute(sql, &[id.as_str().into(), head.map(SnapshotName::as_str).into()]).map(|_| ())
}

pub(crate) fn set_turns(database: &mut Database, id: &SessionId, turns: u64) -> Result<()> {
    database.execute("UPDATE session SET turns = ?2 WHERE id = ?1", &[id.as_str().into(), integer(turns)]).map(|_| ())
}

/// Says where a session is: packed, or here. Inside a transaction.
pub(crate) fn set_pack(database: &mut Database, id: &SessionId, state: SessionState, pack: Option<&str>) -> Result<()> {
    let sql = "UPDATE session SET state = ?2, pack = ?3 WHERE id = ?1";
    database.execute(sql, &[id.as_str().into(), state.as_str().into(), pack.into()]).map(|_| ())
}

/// Removes a snapshot; what stood on it stands on its parent now. Inside a transaction.
pub(crate) fn delete_snapshot(database: &mut Database, id: &SessionId, name: &SnapshotName) -> Result<()> {
    let key: [Value; 2] = [id.as_str().into(), name.as_str().into()];
    let sql = "SELECT parent FROM snapshot WHERE session = ?1 AND name = ?2";
    let parent: Value = database.query_optional(sql, &key, |row| row.optional_text(0))?.flatten().into();
    let with_parent = [key[0].clone(), key[1].clone(), parent];
    database.execute("UPDATE snapshot SET parent = ?3 WHERE session = ?1 AND parent = ?2", &with_parent)?;
    database.execute("UPDATE session SET head_snapshot = ?3 WHERE id = ?1 AND head_snapshot = ?2", &with_parent)?;
    database.execute("DELETE FROM snapshot WHERE session = ?1 AND name = ?2", &key).map(|_| ())
}
