//! Notes: short texts others keep with a session. They go with it, and are in none of its copies.

use sandbar_core::{Error, Result, SessionId};

use crate::{
    Host,
    verb::{Call, Verb},
};

/// Longest key and longest text of a note.
const LONGEST_KEY: usize = 128;
const LONGEST_NOTE: usize = 64 << 10;

impl Host {
    /// Keeps a text of at most 64 KiB under a key, in place of what was there.
    pub async fn put_note(&self, id: &SessionId, key: &str, text: &str) -> Result<()> {
        check(key, text)?;
        let (id, key, text) = (id.clone(), key.to_owned(), text.to_owned());
        let call = Call::on(&id, Verb::PutNote).with("key", key.as_str());
        self.run(call, move |inner| {
            inner.admit()?;
            inner.state.put_note(&id, &key, &text)
        })
        .await
    }

    /// What was kept under a key. Reading it is no use of the session.
    pub async fn note(&self, id: &SessionId, key: &str) -> Result<Option<String>> {
        let (id, key) = (id.clone(), key.to_owned());
        let call = Call::on(&id, Verb::GetNote);
        self.run(call, move |inner| inner.state.note(&id, &key)).await
    }

    /// The notes of this key of all sessions that have one.
    pub async fn notes(&self, key: &str) -> Result<Vec<(SessionId, String)>> {
        let key = key.to_owned();
        self.run(Call::of(Verb::ListNotes), move |inner| inner.state.notes(&key)).await
    }

    /// Removes a note. One that is not there is removed already.
    pub async fn remove_note(&self, id: &SessionId, key: &str) -> Result<()> {
        let (id, key) = (id.clone(), key.to_owned());
        let call = Call::on(&id, Verb::RemoveNote).with("key", key.as_str());
        self.run(call, move |inner| {
            inner.state.note(&id, &key)?;
            inner.state.remove_note(&id, &key)
        })
        .await
    }
}

fn check(key: &str, text: &str) -> Result<()> {
    if key.is_empty() || key.len() > LONGEST_KEY || key.contains('\0') {
        return Err(Error::invalid("key", format!("`{}` is no key of a note", key.escape_debug()))
            .with_hint(format!("use 1 to {LONGEST_KEY} bytes without NUL")));
    }
    check_text("note", text)
}

/// Refuses a text that is too long to be kept as a note.
pub(super) fn check_text(field: &'static str, text: &str) -> Result<()> {
    if text.len() > LONGEST_NOTE || text.contains('\0') {
        return Err(Error::invalid(field, format!("a text of {} bytes cannot be kept as a note", text.len()))
            .with_hint(format!("use at most {LONGEST_NOTE} bytes without NUL")));
    }
    Ok(())
}
