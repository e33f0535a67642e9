//! Rows of notes: what others keep with a session.

use sandbar_core::{Result, SessionId};

use super::StateStore;
use crate::gate::not_found;

impl StateStore {
    /// Keeps a note.
    pub(crate) fn put_note(&self, session: &SessionId, key: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO note (session, key, value) SELECT id, ?2, ?3 FROM session WHERE id = ?1 \
                   ON CONFLICT (session, key) DO UPDATE SET value = excluded.value";
        let kept = self.with(|database| database.execute(sql, [session.as_str(), key, value]))?;
        if kept > 0 { Ok(()) } else { Err(not_found(session)) }
    }

    /// A note of a session, if it has one.
    pub(crate) fn note(&self, session: &SessionId, key: &str) -> Result<Option<String>> {
        let sql = "SELECT note.value FROM session LEFT JOIN note ON note.session = session.id AND note.key = ?2 \
                   WHERE session.id = ?1";
        let values = [session.as_str(), key];
        let found = self.with(|database| database.query_optional(sql, values, |row| row.optional_text(0)))?;
        found.ok_or_else(|| not_found(session))
    }

    /// Notes of this key, of all sessions that have one.
    pub(crate) fn notes(&self, key: &str) -> Result<Vec<(SessionId, String)>> {
        let sql = "SELECT session, value FROM note WHERE key = ?1 ORDER BY session";
        self.with(|database| database.query(sql, [key], |row| Ok((SessionId::new(row.text(0)?)?, row.text(1)?))))
    }

    /// Removes a note, if it is there.
    pub(crate) fn remove_note(&self, session: &SessionId, key: &str) -> Result<()> {
        let sql = "DELETE FROM note WHERE session = ?1 AND key = ?2";
        self.with(|database| database.execute(sql, [session.as_str(), key]).map(|_| ()))
    }
}
