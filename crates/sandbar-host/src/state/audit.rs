//! Rows of the audit log. Each has a hash over itself and all earlier rows of its session.

use jiff::Timestamp;
use sandbar_core::{
    Actor, AuditEntry, AuditOrder, AuditQuery, AuditVerdict, Page, PageRequest, Result, SessionId,
};

use super::{
    Database, Row, StateStore, from_json,
    records::{integer, nanoseconds, time},
    to_json,
};
use crate::audit::Event;

/// Context of the hash before the first entry of a log. Must never change, or existing logs would
/// fail verification.
const SEED: &str = "sandbar audit log, version 1";

/// Rows verified per query, which bounds how long other callers wait for the database.
const VERIFY_BATCH_ROWS: i64 = 500;

/// Size of the numbers, the hash and the index of a row, about.
const ROW_OVERHEAD: u64 = 120;

/// A row as it is stored.
#[derive(Debug)]
struct AuditRow {
    number: i64,
    session: String,
    made: i64,
    who: String,
    what: String,
    outcome: String,
    detail: String,
    chain: String,
}

/// The statements that read whole rows, in the column order of `AuditRow::read`.
const OLDEST_FIRST: &str = "SELECT number, session, made, who, what, outcome, detail, chain FROM audit \
                            WHERE session = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
const NEWEST_FIRST: &str = "SELECT number, session, made, who, what, outcome, detail, chain FROM audit \
                            WHERE session = ?1 AND number > ?2 AND number < ?4 ORDER BY number DESC LIMIT ?3";

impl AuditRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            number: row.get(0)?,
            session: row.get(1)?,
            made: row.get(2)?,
            who: row.get(3)?,
            what: row.get(4)?,
            outcome: row.get(5)?,
            detail: row.get(6)?,
            chain: row.get(7)?,
        })
    }

    /// Returns the hash that this row must have after one with the hash `before`. Each text is
    /// hashed with its length, so that no bytes can move from one field to the next.
    fn expected_chain(&self, before: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&self.number.to_le_bytes())
            .update(&self.made.to_le_bytes());
        for text in [
            before,
            &self.session,
            &self.who,
            &self.what,
            &self.outcome,
            &self.detail,
        ] {
            hasher
                .update(&(text.len() as u64).to_le_bytes())
                .update(text.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    fn insert(self, database: &Database) -> Result<()> {
        let sql = "INSERT INTO audit (number, session, made, who, what, outcome, detail, chain) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let values = (
            self.number,
            self.session,
            self.made,
            self.who,
            self.what,
            self.outcome,
            self.detail,
            self.chain,
        );
        database.execute(sql, values).map(|_| ())
    }

    fn entry(self) -> Result<AuditEntry> {
        Ok(AuditEntry {
            number: u64::try_from(self.number).unwrap_or(0),
            session: SessionId::new(self.session)?,
            at: time(self.made)?,
            who: Actor::new(&self.who)?,
            what: self.what,
            outcome: self.outcome,
            detail: from_json(&self.detail)?,
            chain: self.chain,
        })
    }
}

fn seed(session: &SessionId) -> String {
    blake3::Hash::from(blake3::derive_key(SEED, session.as_str().as_bytes()))
        .to_hex()
        .to_string()
}

impl StateStore {
    /// Appends an entry to the log of its session; returns its size.
    pub(crate) fn append_audit(&self, event: &Event) -> Result<u64> {
        let detail = to_json(&event.detail)?;
        // Needs no transaction: one statement writes, and the lock on the database is held.
        self.with(|database| {
            let sql = "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'audit'), \
                       (SELECT chain FROM audit WHERE session = ?1 ORDER BY number DESC LIMIT 1)";
            let read = |row: &Row<'_>| Ok((row.get::<Option<i64>>(0)?, row.optional_text(1)?));
            let (number, before) = database
                .query_optional(sql, [event.session.as_str()], read)?
                .unwrap_or_default();
            let mut row = AuditRow {
                number: number.unwrap_or(0) + 1,
                session: event.session.to_string(),
                made: nanoseconds(Timestamp::now()),
                who: event.who.to_string(),
                what: event.what.to_owned(),
                outcome: event.outcome.to_owned(),
                detail,
                chain: String::new(),
            };
            row.chain = row.expected_chain(&before.unwrap_or_else(|| seed(&event.session)));
            let texts = [&row.session, &row.who, &row.what, &row.outcome, &row.detail];
            let bytes = texts.map(|text| text.len() as u64).iter().sum::<u64>() + ROW_OVERHEAD;
            row.insert(database)?;
            Ok(bytes)
        })
    }

    /// Returns the size of the log of a session, and the time of its first entry.
    pub(crate) fn audit_size(&self, session: &SessionId) -> Result<(u64, Option<Timestamp>)> {
        let sql = "SELECT coalesce(sum(length(CAST(session AS BLOB)) + length(CAST(who AS BLOB)) + length(CAST(what AS BLOB)) \
                   + length(CAST(outcome AS BLOB)) + length(CAST(detail AS BLOB)) + ?2), 0), min(made) \
                   FROM audit WHERE session = ?1";
        let read = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<Option<i64>>(1)?));
        let key = (session.as_str(), integer(ROW_OVERHEAD));
        let found = self.with(|database| database.query_optional(sql, key, read))?;
        let (bytes, first) = found.unwrap_or_default();
        let first = first.map(time).transpose()?;
        Ok((u64::try_from(bytes).unwrap_or(0), first))
    }

    /// Returns one page of a log.
    pub(crate) fn audit_page(
        &self,
        session: &SessionId,
        query: &AuditQuery,
    ) -> Result<Page<AuditEntry>> {
        let size = query.page.checked_size()?;
        let token = query
            .page
            .token
            .as_deref()
            .map(|token| token.parse::<u64>().map_err(|_| PageRequest::bad_token()));
        let token = token.transpose()?;
        let after = query.after.unwrap_or(0);
        // One more than requested, to know whether there is another page.
        let limit = integer(size as u64 + 1);
        let key = session.as_str();
        let mut rows = self.with(|database| match query.order {
            AuditOrder::OldestFirst => {
                let after = integer(after.max(token.unwrap_or(0)));
                database.query(OLDEST_FIRST, (key, after, limit), AuditRow::read)
            }
            AuditOrder::NewestFirst => {
                let before = integer(token.unwrap_or(u64::MAX));
                database.query(
                    NEWEST_FIRST,
                    (key, integer(after), limit, before),
                    AuditRow::read,
                )
            }
        })?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next_token = rows
            .last()
            .filter(|_| more)
            .map(|last| last.number.to_string());
        let items = rows
            .into_iter()
            .map(AuditRow::entry)
            .collect::<Result<_>>()?;
        Ok(Page { items, next_token })
    }

    /// Whether a session has a log.
    pub(crate) fn has_audit(&self, session: &SessionId) -> Result<bool> {
        let sql = "SELECT 1 FROM audit WHERE session = ?1 LIMIT 1";
        let found =
            self.with(|database| database.query_optional(sql, [session.as_str()], |_| Ok(())))?;
        Ok(found.is_some())
    }

    /// Verifies the hash chain of a session's log.
    pub(crate) fn verify_audit(&self, session: &SessionId) -> Result<AuditVerdict> {
        let (mut before, mut last, mut entries) = (seed(session), 0, 0);
        loop {
            let key = (session.as_str(), last, VERIFY_BATCH_ROWS);
            let rows = self.with(|database| database.query(OLDEST_FIRST, key, AuditRow::read))?;
            if rows.is_empty() {
                return Ok(AuditVerdict::Intact {
                    entries,
                    head: Some(before).filter(|_| entries > 0),
                });
            }
            for row in rows {
                if row.chain != row.expected_chain(&before) {
                    return Ok(AuditVerdict::Broken {
                        number: u64::try_from(row.number).unwrap_or(0),
                    });
                }
                (before, last, entries) = (row.chain, row.number, entries + 1);
            }
        }
    }

    /// Deletes the logs of destroyed sessions whose last entry is older than `before`; returns how
    /// many.
    pub(crate) fn remove_old_audits(&self, before: Timestamp) -> Result<usize> {
        // Steps from session to session by the index, independent of the length of their logs.
        let sql = "WITH RECURSIVE log (id) AS ( \
                       SELECT min(session) FROM audit \
                       UNION ALL \
                       SELECT (SELECT min(session) FROM audit WHERE session > log.id) FROM log WHERE log.id IS NOT NULL) \
                   SELECT id FROM log WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM session) \
                   AND (SELECT made FROM audit WHERE session = log.id ORDER BY number DESC LIMIT 1) < ?1";
        self.transaction(|database| {
            let old = database.query(sql, [nanoseconds(before)], |row| row.text(0))?;
            for session in &old {
                database.execute("DELETE FROM audit WHERE session = ?1", [session.as_str()])?;
            }
            Ok(old.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandbar_core::ErrorCode;
    use serde_json::json;

    use super::*;

    fn store(directory: &tempfile::TempDir) -> StateStore {
        StateStore::open(&directory.path().join("state.db")).unwrap()
    }

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    /// Writes two logs alternately, `count` entries each.
    fn fill(store: &StateStore, count: usize) {
        for number in 0..count {
            for session in ["one", "other"] {
                let event = Event::new(&id(session), "exec")
                    .with("n", number)
                    .with("text", "ü\"\n");
                store.append_audit(&event).unwrap();
            }
        }
    }

    fn entries(store: &StateStore, session: &str) -> Vec<AuditEntry> {
        store
            .audit_page(&id(session), &AuditQuery::default())
            .unwrap()
            .items
    }

    fn tamper(store: &StateStore, sql: &'static str) {
        let changed = store.with(|database| database.execute(sql, [])).unwrap();
        assert!(changed > 0, "{sql}");
    }

    #[test]
    fn entries_are_read_in_order_as_written() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        fill(&store, 3);
        let failed =
            Event::of_host(&id("one"), "pause_session").outcome(ErrorCode::ToolsInFlight.as_str());
        store.append_audit(&failed).unwrap();
        let log = entries(&store, "one");
        assert_eq!(
            log.iter().map(|entry| entry.number).collect::<Vec<_>>(),
            [1, 3, 5, 7]
        );
        assert_eq!(log[1].who, Actor::local());
        assert_eq!(
            serde_json::Value::from(log[1].detail.clone()),
            json!({"n": 1, "text": "ü\"\n"})
        );
        assert_eq!(
            (log[3].who.as_str(), log[3].outcome.as_str()),
            ("host", "ToolsInFlight")
        );
        assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!(entries(&store, "missing").is_empty());
        let head = Some(log[3].chain.clone());
        assert_eq!(
            store.verify_audit(&id("one")).unwrap(),
            AuditVerdict::Intact { entries: 4, head }
        );
    }

    #[test]
    fn log_is_paged_in_both_orders() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        fill(&store, 7);
        for (order, expected) in [
            (AuditOrder::OldestFirst, [5, 7, 9, 11, 13]),
            (AuditOrder::NewestFirst, [13, 11, 9, 7, 5]),
        ] {
            let page = PageRequest {
                size: 2,
                token: None,
            };
            let mut query = AuditQuery {
                order,
                after: Some(3),
                page,
            };
            let (mut seen, mut pages) = (Vec::new(), 0);
            loop {
                let page = store.audit_page(&id("one"), &query).unwrap();
                seen.extend(page.items.into_iter().map(|entry| entry.number));
                pages += 1;
                match page.next_token {
                    Some(token) => query.page.token = Some(token),
                    None => break,
                }
            }
            assert_eq!((seen.as_slice(), pages), (expected.as_slice(), 3));
        }
        let bad = PageRequest {
            size: 0,
            token: Some("x".into()),
        };
        let error = store
            .audit_page(
                &id("one"),
                &AuditQuery {
                    page: bad,
                    ..AuditQuery::default()
                },
            )
            .unwrap_err();
        assert_eq!(error.field(), Some("page_token"));
    }

    #[test]
    fn tampered_log_names_the_first_entry_that_does_not_verify() {
        let cases = BTreeMap::from([
            ("UPDATE audit SET detail = '{}' WHERE number = 5", 5),
            ("UPDATE audit SET outcome = 'Internal' WHERE number = 1", 1),
            ("UPDATE audit SET made = made + 1 WHERE number = 13", 13),
            (
                "UPDATE audit SET who = who || 'x', what = substr(what, 2) WHERE number = 7",
                7,
            ),
            // Deleted: the next entry does not verify.
            ("DELETE FROM audit WHERE number = 5", 7),
            ("DELETE FROM audit WHERE number = 1", 3),
            // Contents swapped, with their hashes.
            (
                "UPDATE audit SET (made, who, what, outcome, detail, chain) = (SELECT made, who, what, outcome, detail, \
                 chain FROM audit AS that WHERE that.number = 12 - audit.number) WHERE number IN (5, 7)",
                5,
            ),
            // Moved to the other log, or to another position.
            ("UPDATE audit SET session = 'one' WHERE number = 6", 6),
            ("UPDATE audit SET number = 100 WHERE number = 9", 11),
            // A hash replaced without those after it.
            (
                "UPDATE audit SET chain = (SELECT chain FROM audit WHERE number = 3) WHERE number = 5",
                5,
            ),
        ]);
        for (sql, broken) in cases {
            let directory = tempfile::tempdir().unwrap();
            let store = store(&directory);
            fill(&store, 7);
            tamper(&store, sql);
            assert_eq!(
                store.verify_audit(&id("one")).unwrap(),
                AuditVerdict::Broken { number: broken },
                "{sql}"
            );
        }
    }

    #[test]
    fn truncated_log_differs_from_a_saved_head() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        fill(&store, 3);
        let AuditVerdict::Intact {
            head: Some(head), ..
        } = store.verify_audit(&id("one")).unwrap()
        else {
            panic!()
        };
        tamper(&store, "DELETE FROM audit WHERE number = 5");
        assert!(matches!(
            store.verify_audit(&id("one")).unwrap(),
            AuditVerdict::Intact { entries: 2, .. }
        ));
        assert!(
            entries(&store, "one")
                .iter()
                .all(|entry| entry.chain != head)
        );
        // Its number is not reused either.
        fill(&store, 1);
        assert_eq!(entries(&store, "one").last().unwrap().number, 7);
    }

    #[test]
    fn a_long_log_is_verified_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let count = usize::try_from(VERIFY_BATCH_ROWS).unwrap() + 3;
        fill(&store, count);
        let verdict = store.verify_audit(&id("other")).unwrap();
        assert!(
            matches!(verdict, AuditVerdict::Intact { entries, .. } if entries == count as u64),
            "{verdict:?}"
        );
        tamper(
            &store,
            "UPDATE audit SET who = 'x' WHERE number = (SELECT max(number) FROM audit)",
        );
        assert!(matches!(
            store.verify_audit(&id("other")).unwrap(),
            AuditVerdict::Broken { .. }
        ));
    }

    #[test]
    fn old_logs_of_destroyed_sessions_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let made = "INSERT INTO session (id, state, base, labels, resources, env, created, turns) \
                    VALUES ('one', 'active', 'b', '{}', '{}', '{}', 0, 0)";
        store.with(|database| database.execute(made, [])).unwrap();
        fill(&store, 3);
        let long_ago = entries(&store, "one")[0].at;
        assert_eq!(store.remove_old_audits(long_ago).unwrap(), 0);
        // The last entry counts, not the first.
        assert_eq!(
            store
                .remove_old_audits(entries(&store, "other")[1].at)
                .unwrap(),
            0
        );
        let later = Timestamp::now();
        assert_eq!(store.remove_old_audits(later).unwrap(), 1);
        assert_eq!(
            (entries(&store, "one").len(), entries(&store, "other").len()),
            (3, 0)
        );
        assert!(store.has_audit(&id("one")).unwrap() && !store.has_audit(&id("other")).unwrap());
        // A session that comes again begins a log of its own.
        fill(&store, 1);
        assert!(matches!(
            store.verify_audit(&id("other")).unwrap(),
            AuditVerdict::Intact { entries: 1, .. }
        ));
        assert_eq!(entries(&store, "other")[0].number, 8);
    }
}
