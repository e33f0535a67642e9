//! Notes: short texts that API surfaces keep with a session. They are deleted with it and not
//! copied to forks.

use sandbar_core::{Error, Result, SessionId};

use crate::{
    Host,
    verb::{Call, Verb},
};

const MAX_KEY_BYTES: usize = 128;
const MAX_NOTE_BYTES: usize = 64 << 10;

impl Host {
    /// Stores a text of at most 64 KiB under a key. Replaces an earlier one.
    pub async fn put_note(&self, id: &SessionId, key: &str, text: &str) -> Result<()> {
        check(key, text)?;
        let (id, key, text) = (id.clone(), key.to_owned(), text.to_owned());
        let call = Call::on(&id, Verb::PutNote).with("key", key.as_str());
        self.run(call, move |engine| {
            engine.admit()?;
            engine.state.put_note(&id, &key, &text)
        })
        .await
    }

    /// Returns the text under a key. Does not count as a use of the session.
    pub async fn note(&self, id: &SessionId, key: &str) -> Result<Option<String>> {
        let (id, key) = (id.clone(), key.to_owned());
        let call = Call::on(&id, Verb::GetNote);
        self.run(call, move |engine| engine.state.note(&id, &key))
            .await
    }

    /// Lists the notes under this key of all sessions.
    pub async fn notes(&self, key: &str) -> Result<Vec<(SessionId, String)>> {
        let key = key.to_owned();
        self.run(Call::of(Verb::ListNotes), move |engine| {
            engine.state.notes(&key)
        })
        .await
    }

    /// Removes a note. Succeeds if there is none.
    pub async fn remove_note(&self, id: &SessionId, key: &str) -> Result<()> {
        let (id, key) = (id.clone(), key.to_owned());
        let call = Call::on(&id, Verb::RemoveNote).with("key", key.as_str());
        self.run(call, move |engine| {
            engine.state.note(&id, &key)?;
            engine.state.remove_note(&id, &key)
        })
        .await
    }
}

fn check(key: &str, text: &str) -> Result<()> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES || key.contains('\0') {
        return Err(Error::invalid(
            "key",
            format!("note key `{}` is invalid", key.escape_debug()),
        )
        .with_hint(format!("use 1 to {MAX_KEY_BYTES} bytes without NUL")));
    }
    check_text("note", text)
}

/// Refuses a text that is too long for a note, or has a NUL byte.
pub(super) fn check_text(field: &'static str, text: &str) -> Result<()> {
    if text.len() > MAX_NOTE_BYTES || text.contains('\0') {
        return Err(Error::invalid(
            field,
            format!("note of {} bytes is too long or contains NUL", text.len()),
        )
        .with_hint(format!("use at most {MAX_NOTE_BYTES} bytes without NUL")));
    }
    Ok(())
}
