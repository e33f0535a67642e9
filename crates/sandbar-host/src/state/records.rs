//! Rows of sessions and snapshots.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use rusqlite::params;
use sandbar_core::{
    BaseName, ByteCount, Error, Labels, NetworkPolicy, OnExpiry, Resources, Result, RootRights,
    SessionId, SessionState, SnapshotInfo, SnapshotKind, SnapshotName,
};

use super::{Database, Ground, Row, StateStore, from_json, to_json};

/// The record of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionRecord {
    pub(crate) id: SessionId,
    pub(crate) state: SessionState,
    pub(crate) base: BaseName,
    /// The imported base below its volume, if `base` is a saved one. A saved base may be deleted at
    /// any time; this one may not.
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
    /// Turns completed so far. Never decreases, not even by a rollback.
    pub(crate) turns: u64,
    pub(crate) parent: Option<(SessionId, Option<SnapshotName>)>,
    /// The snapshot that the volume was taken or rolled back to last.
    pub(crate) head: Option<SnapshotName>,
    /// Prefix of its pack in the object store and the fingerprint of the pack, separated by `@`,
    /// while it is hibernated.
    pub(crate) pack: Option<String>,
    /// Rights of root inside.
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
    Timestamp::from_nanosecond(nanoseconds.into()).map_err(|error| {
        Error::internal("a time in the state database is out of range").with_source(error)
    })
}

pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Parses a network policy. Schema version 3 and before wrote `none` or `full`.
fn read_policy(text: &str) -> Result<NetworkPolicy> {
    if text.starts_with('{') {
        from_json(text)
    } else {
        text.parse()
    }
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
        network: row
            .optional_text(6)?
            .map(|text| read_policy(&text))
            .transpose()?,
        quota: row
            .get::<Option<i64>>(7)?
            .map(|quota| ByteCount(unsigned(quota))),
        created: time(row.get(8)?)?,
        expires: row.get::<Option<i64>>(9)?.map(time).transpose()?,
        turns: unsigned(row.get(10)?),
        parent: row
            .optional_text(11)?
            .map(SessionId::new)
            .transpose()?
            .map(|session| (session, parent_snapshot)),
        head: row.optional_text(13)?.map(SnapshotName::new).transpose()?,
        idle_timeout: row
            .get::<Option<i64>>(14)?
            .map(|millis| Duration::from_millis(unsigned(millis))),
        pack: row.optional_text(15)?,
        on_expiry: row.text(16)?.parse()?,
        ground: row
            .optional_text(17)?
            .map(|text| from_json(&text))
            .transpose()?,
        root_rights: row.text(18)?.parse()?,
    })
}

impl SessionRecord {
    /// Returns the imported base below its volume.
    pub(crate) fn base_in_use(&self) -> &BaseName {
        self.ground
            .as_ref()
            .map_or(&self.base, |ground| &ground.base)
    }

    /// Inserts the session, inside a transaction.
    pub(crate) fn insert(&self, database: &Database) -> Result<()> {
        let sql = "INSERT INTO session (id, state, base, labels, resources, env, network, quota, created, expires, turns, \
                   parent_session, parent_snapshot, head_snapshot, idle_timeout, pack, on_expiry, ground, root_rights) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
        let (parent, parent_snapshot) = match &self.parent {
            Some((session, snapshot)) => (
                Some(session.as_str()),
                snapshot.as_ref().map(SnapshotName::as_str),
            ),
            None => (None, None),
        };
        let values = params![
            self.id.as_str(),
            self.state.as_str(),
            self.base.as_str(),
            to_json(&self.labels)?,
            to_json(&self.resources)?,
            to_json(&self.env)?,
            self.network.as_ref().map(to_json).transpose()?,
            self.quota.map(|quota| integer(quota.get())),
            nanoseconds(self.created),
            self.expires.map(nanoseconds),
            integer(self.turns),
            parent,
            parent_snapshot,
            self.head.as_ref().map(SnapshotName::as_str),
            self.idle_timeout
                .map(|idle| i64::try_from(idle.as_millis()).unwrap_or(i64::MAX)),
            self.pack,
            self.on_expiry.as_str(),
            self.ground.as_ref().map(to_json).transpose()?,
            self.root_rights.as_str(),
        ];
        database.execute(sql, values).map(|_| ())
    }
}

impl StateStore {
    pub(crate) fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>> {
        self.with(|database| database.query_optional(ONE, [id.as_str()], read_session))
    }

    /// Lists every session, oldest first.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionRecord>> {
        self.with(|database| database.query(ALL, [], read_session))
    }

    /// Lists every session with its creation time.
    pub(crate) fn session_creations(&self) -> Result<Vec<(SessionId, Timestamp)>> {
        let read = |row: &Row<'_>| Ok((SessionId::new(row.text(0)?)?, time(row.get(1)?)?));
        self.with(|database| database.query("SELECT id, created FROM session", [], read))
    }

    /// Counts the sessions in each state.
    pub(crate) fn session_counts(&self) -> Result<BTreeMap<String, u64>> {
        let sql = "SELECT state, count(*) FROM session GROUP BY state";
        let read =
            |row: &Row<'_>| Ok((row.get(0)?, u64::try_from(row.get::<i64>(1)?).unwrap_or(0)));
        Ok(self
            .with(|database| database.query(sql, [], read))?
            .into_iter()
            .collect())
    }

    pub(crate) fn set_state(&self, id: &SessionId, state: SessionState) -> Result<()> {
        let sql = "UPDATE session SET state = ?2 WHERE id = ?1";
        self.with(|database| {
            database
                .execute(sql, [id.as_str(), state.as_str()])
                .map(|_| ())
        })
    }

    /// Records a session as paused, with a new expiry.
    pub(crate) fn set_paused(&self, id: &SessionId, expires: Option<Timestamp>) -> Result<()> {
        let sql = "UPDATE session SET state = ?2, expires = ?3 WHERE id = ?1";
        let values = (
            id.as_str(),
            SessionState::Paused.as_str(),
            expires.map(nanoseconds),
        );
        self.with(|database| database.execute(sql, values).map(|_| ()))
    }

    /// Sets the expiry of a session; without `then`, its action on expiry stays.
    pub(crate) fn set_expiry(
        &self,
        id: &SessionId,
        expires: Option<Timestamp>,
        then: Option<OnExpiry>,
    ) -> Result<()> {
        let sql =
            "UPDATE session SET expires = ?2, on_expiry = coalesce(?3, on_expiry) WHERE id = ?1";
        let values = (
            id.as_str(),
            expires.map(nanoseconds),
            then.map(OnExpiry::as_str),
        );
        self.with(|database| database.execute(sql, values).map(|_| ()))
    }

    pub(crate) fn set_network(&self, id: &SessionId, policy: Option<&NetworkPolicy>) -> Result<()> {
        let sql = "UPDATE session SET network = ?2 WHERE id = ?1";
        let policy = policy.map(to_json).transpose()?;
        self.with(|database| database.execute(sql, (id.as_str(), policy)).map(|_| ()))
    }

    /// Lists the snapshots of a session, oldest first.
    pub(crate) fn snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotInfo>> {
        let sql =
            "SELECT name, kind, created, parent FROM snapshot WHERE session = ?1 ORDER BY number";
        self.with(|database| {
            database.query(sql, [id.as_str()], |row| {
                Ok(SnapshotInfo {
                    name: SnapshotName::new(row.text(0)?)?,
                    kind: row.text(1)?.parse::<SnapshotKind>()?,
                    created: time(row.get(2)?)?,
                    parent: row.optional_text(3)?.map(SnapshotName::new).transpose()?,
                    space_used: None,
                })
            })
        })
    }

    pub(crate) fn snapshot_count(&self, id: &SessionId) -> Result<u64> {
        let sql = "SELECT count(*) FROM snapshot WHERE session = ?1";
        let count = self.with(|database| {
            database.query_optional(sql, [id.as_str()], |row| row.get::<i64>(0))
        })?;
        Ok(count
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or(0))
    }
}

/// Deletes a session with its snapshots, inside a transaction.
pub(crate) fn delete_session(database: &Database, id: &SessionId) -> Result<()> {
    database
        .execute("DELETE FROM session WHERE id = ?1", [id.as_str()])
        .map(|_| ())
}

/// Inserts a snapshot and makes it the head, inside a transaction.
pub(crate) fn insert_snapshot(
    database: &Database,
    id: &SessionId,
    snapshot: &SnapshotInfo,
) -> Result<()> {
    let sql =
        "INSERT INTO snapshot (session, name, kind, created, parent) VALUES (?1, ?2, ?3, ?4, ?5)";
    let (created, parent) = (
        nanoseconds(snapshot.created),
        snapshot.parent.as_ref().map(SnapshotName::as_str),
    );
    database.execute(
        sql,
        (
            id.as_str(),
            snapshot.name.as_str(),
            snapshot.kind.as_str(),
            created,
            parent,
        ),
    )?;
    set_head(database, id, Some(&snapshot.name))
}

pub(crate) fn set_head(
    database: &Database,
    id: &SessionId,
    head: Option<&SnapshotName>,
) -> Result<()> {
    let sql = "UPDATE session SET head_snapshot = ?2 WHERE id = ?1";
    database
        .execute(sql, (id.as_str(), head.map(SnapshotName::as_str)))
        .map(|_| ())
}

pub(crate) fn set_turns(database: &Database, id: &SessionId, turns: u64) -> Result<()> {
    database
        .execute(
            "UPDATE session SET turns = ?2 WHERE id = ?1",
            (id.as_str(), integer(turns)),
        )
        .map(|_| ())
}

/// Records whether the pack or the volume of a session is authoritative, inside a transaction.
pub(crate) fn set_pack(
    database: &Database,
    id: &SessionId,
    state: SessionState,
    pack: Option<&str>,
) -> Result<()> {
    let sql = "UPDATE session SET state = ?2, pack = ?3 WHERE id = ?1";
    database
        .execute(sql, (id.as_str(), state.as_str(), pack))
        .map(|_| ())
}

/// Deletes a snapshot, inside a transaction. Its children and the head move to its parent.
pub(crate) fn delete_snapshot(
    database: &Database,
    id: &SessionId,
    name: &SnapshotName,
) -> Result<()> {
    let key = [id.as_str(), name.as_str()];
    let sql = "SELECT parent FROM snapshot WHERE session = ?1 AND name = ?2";
    let parent = database
        .query_optional(sql, key, |row| row.optional_text(0))?
        .flatten();
    let with_parent = (id.as_str(), name.as_str(), parent.as_deref());
    database.execute(
        "UPDATE snapshot SET parent = ?3 WHERE session = ?1 AND parent = ?2",
        with_parent,
    )?;
    database.execute(
        "UPDATE session SET head_snapshot = ?3 WHERE id = ?1 AND head_snapshot = ?2",
        with_parent,
    )?;
    database
        .execute("DELETE FROM snapshot WHERE session = ?1 AND name = ?2", key)
        .map(|_| ())
}
