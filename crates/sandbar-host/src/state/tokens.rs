//! Rows of access tokens. Only the hash of a token is stored.

use blake3::Hash;
use sandbar_core::{Error, ErrorCode, Result, SessionId, TokenInfo, TokenName, TokenScope};

use super::{
    Database, StateStore,
    records::{nanoseconds, time},
};

impl StateStore {
    /// Inserts a token with its scopes. The sessions that it names must exist; a token is deleted
    /// with the last of them.
    pub(crate) fn insert_token(&self, info: &TokenInfo, hash: Hash) -> Result<()> {
        self.transaction(|database| {
            let name = info.name.as_str();
            let taken =
                database
                    .query_optional("SELECT 1 FROM token WHERE name = ?1", [name], |_| Ok(()))?;
            if taken.is_some() {
                return Err(Error::new(
                    ErrorCode::TokenExists,
                    format!("token `{name}` exists already"),
                )
                .with_field("name")
                .with_hint(
                    "choose another name, or revoke that one first with `sandbar token rm`",
                ));
            }
            let sql = "INSERT INTO token (name, hash, created, expires) VALUES (?1, ?2, ?3, ?4)";
            let (created, expires) = (nanoseconds(info.created), info.expires.map(nanoseconds));
            database.execute(sql, (name, hash.to_hex().as_str(), created, expires))?;
            info.scopes
                .iter()
                .try_for_each(|scope| insert_scope(database, name, scope))
        })
    }

    /// Lists every token with its hash, by name.
    pub(crate) fn tokens(&self) -> Result<Vec<(TokenInfo, Hash)>> {
        let tokens = "SELECT name, hash, created, expires FROM token ORDER BY name";
        let scopes = "SELECT scope FROM token_scope WHERE token = ?1 ORDER BY scope";
        self.with(|database| {
            let mut all = database.query(tokens, [], |row| {
                let hash = Hash::from_hex(row.text(1)?).map_err(|error| {
                    Error::internal("token hash in the state database is invalid")
                        .with_source(error)
                })?;
                let info = TokenInfo {
                    name: TokenName::new(row.text(0)?)?,
                    scopes: Vec::new(),
                    created: time(row.get(2)?)?,
                    expires: row.get::<Option<i64>>(3)?.map(time).transpose()?,
                    last_used: None,
                };
                Ok((info, hash))
            })?;
            for (info, _) in &mut all {
                info.scopes =
                    database.query(scopes, [info.name.as_str()], |row| row.text(0)?.parse())?;
            }
            Ok(all)
        })
    }

    /// Deletes a token; returns whether it existed.
    pub(crate) fn delete_token(&self, name: &TokenName) -> Result<bool> {
        let sql = "DELETE FROM token WHERE name = ?1";
        self.with(|database| Ok(database.execute(sql, [name.as_str()])? > 0))
    }
}

fn insert_scope(database: &Database, token: &str, scope: &TokenScope) -> Result<()> {
    let session = match scope {
        TokenScope::Session(id) => Some(id),
        TokenScope::Admin | TokenScope::Read => None,
    };
    if let Some(id) = session {
        let sql = "SELECT 1 FROM session WHERE id = ?1";
        database
            .query_optional(sql, [id.as_str()], |_| Ok(()))?
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::SessionNotFound,
                    format!("session `{id}` of the token scope does not exist"),
                )
                .with_field("scopes")
                .with_hint("create the session first; list sessions with `sandbar ls`")
            })?;
    }
    let sql = "INSERT INTO token_scope (token, scope, session) VALUES (?1, ?2, ?3)";
    database
        .execute(
            sql,
            (token, scope.to_string(), session.map(SessionId::as_str)),
        )
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sandbar_core::{Resources, SessionState};

    use super::*;
    use crate::state::{SessionRecord, delete_session};

    fn session(store: &StateStore, id: &str) -> SessionId {
        let id = SessionId::new(id).unwrap();
        let record = SessionRecord {
            id: id.clone(),
            state: SessionState::Active,
            base: "base".parse().unwrap(),
            ground: None,
            labels: BTreeMap::new(),
            resources: Resources::default(),
            env: BTreeMap::new(),
            network: None,
            quota: None,
            created: jiff::Timestamp::now(),
            expires: None,
            on_expiry: sandbar_core::OnExpiry::default(),
            idle_timeout: None,
            root_rights: sandbar_core::RootRights::Bare,
            turns: 0,
            parent: None,
            head: None,
            pack: None,
        };
        store
            .transaction(|database| record.insert(database))
            .unwrap();
        id
    }

    fn token(name: &str, scopes: &[&str]) -> TokenInfo {
        TokenInfo {
            name: name.parse().unwrap(),
            scopes: scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
            created: jiff::Timestamp::from_second(1).unwrap(),
            expires: jiff::Timestamp::from_second(2).ok(),
            last_used: None,
        }
    }

    #[test]
    fn tokens_are_hashed_and_deleted_with_their_last_session() {
        let directory = tempfile::tempdir().unwrap();
        let store = StateStore::open(&directory.path().join("state.db")).unwrap();
        let (one, two) = (session(&store, "one"), session(&store, "two"));
        let both = token("both", &["session:one", "session:two"]);
        let other = token("reader", &["read", "session:one"]);
        store.insert_token(&both, blake3::hash(b"x")).unwrap();
        store.insert_token(&other, blake3::hash(b"y")).unwrap();
        assert_eq!(
            store.tokens().unwrap(),
            [
                (both.clone(), blake3::hash(b"x")),
                (other, blake3::hash(b"y"))
            ]
        );
        let error = store.insert_token(&both, blake3::hash(b"z")).unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::TokenExists, Some("name"))
        );
        let error = store
            .insert_token(
                &token("late", &["read", "session:none"]),
                blake3::hash(b"z"),
            )
            .unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::SessionNotFound, Some("scopes"))
        );

        let scopes = || -> Vec<(String, Vec<String>)> {
            let all = store.tokens().unwrap().into_iter();
            all.map(|(info, _)| {
                (
                    info.name.into(),
                    info.scopes.iter().map(ToString::to_string).collect(),
                )
            })
            .collect()
        };
        store
            .transaction(|database| delete_session(database, &one))
            .unwrap();
        assert_eq!(
            scopes(),
            [
                ("both".into(), vec!["session:two".into()]),
                ("reader".into(), vec!["read".into()])
            ]
        );
        store
            .transaction(|database| delete_session(database, &two))
            .unwrap();
        assert_eq!(scopes(), [("reader".into(), vec!["read".into()])]);
        let name = "reader".parse().unwrap();
        assert!(store.delete_token(&name).unwrap() && !store.delete_token(&name).unwrap());
    }
}
