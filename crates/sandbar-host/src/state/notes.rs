//! Rows of notes on sessions.

use sandbar_core::{Result, SessionId};

use super::StateStore;
use crate::admission::not_found;

impl StateStore {
    /// Inserts or replaces a note.
    pub(crate) fn put_note(&self, session: &SessionId, key: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO note (session, key, value) SELECT id, ?2, ?3 FROM session WHERE id = ?1 \
                   ON CONFLICT (session, key) DO UPDATE SET value = excluded.value";
        let kept = self.with(|database| database.execute(sql, [session.as_str(), key, value]))?;
        if kept > 0 {
            Ok(())
        } else {
            Err(not_found(session))
        }
    }

    /// Returns a note of a session, if it has one.
    pub(crate) fn note(&self, session: &SessionId, key: &str) -> Result<Option<String>> {
        let sql = "SELECT note.value FROM session LEFT JOIN note ON note.session = session.id AND note.key = ?2 \
                   WHERE session.id = ?1";
        let values = [session.as_str(), key];
        let found =
            self.with(|database| database.query_optional(sql, values, |row| row.optional_text(0)))?;
        found.ok_or_else(|| not_found(session))
    }

    /// Lists the notes under this key of all sessions.
    pub(crate) fn notes(&self, key: &str) -> Result<Vec<(SessionId, String)>> {
        let sql = "SELECT session, value FROM note WHERE key = ?1 ORDER BY session";
        self.with(|database| {
            database.query(sql, [key], |row| {
                Ok((SessionId::new(row.text(0)?)?, row.text(1)?))
            })
        })
    }

    /// Deletes a note, if it exists.
    pub(crate) fn remove_note(&self, session: &SessionId, key: &str) -> Result<()> {
        let sql = "DELETE FROM note WHERE session = ?1 AND key = ?2";
        self.with(|database| database.execute(sql, [session.as_str(), key]).map(|_| ()))
    }
}
