//! Rows of secrets, the only place on disk with their values.

use sandbar_core::{Result, SecretInfo, SecretName, SecretValue};

use super::{
    StateStore,
    records::{nanoseconds, time},
};

impl StateStore {
    pub(crate) fn put_secret(&self, info: &SecretInfo, value: &SecretValue) -> Result<()> {
        let sql = "INSERT INTO secret (name, value, changed) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed = excluded.changed";
        let values = (
            info.name.as_str(),
            value.expose(),
            nanoseconds(info.changed),
        );
        self.with(|database| database.execute(sql, values).map(|_| ()))
    }

    /// Lists every secret with its value.
    pub(crate) fn secrets(&self) -> Result<Vec<(SecretInfo, SecretValue)>> {
        let sql = "SELECT name, value, changed FROM secret ORDER BY name";
        self.with(|database| {
            database.query(sql, [], |row| {
                let info = SecretInfo {
                    name: SecretName::new(row.text(0)?)?,
                    changed: time(row.get(2)?)?,
                };
                Ok((info, SecretValue::new(row.text(1)?)?))
            })
        })
    }

    /// Deletes a secret; returns whether it existed.
    pub(crate) fn delete_secret(&self, name: &SecretName) -> Result<bool> {
        let sql = "DELETE FROM secret WHERE name = ?1";
        self.with(|database| Ok(database.execute(sql, [name.as_str()])? > 0))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn deleted_secret_is_overwritten_in_private_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let store = StateStore::open(&path).unwrap();
        let info = SecretInfo {
            name: SecretName::new("key").unwrap(),
            changed: jiff::Timestamp::now(),
        };
        for value in ["hunter-one-and-only", "hunter-the-second"] {
            store
                .put_secret(&info, &SecretValue::new(value).unwrap())
                .unwrap();
        }
        assert_eq!(store.secrets().unwrap()[0].1.expose(), "hunter-the-second");
        for entry in fs::read_dir(directory.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(
                entry.metadata().unwrap().permissions().mode() & 0o777,
                0o600,
                "{:?}",
                entry.path()
            );
        }
        assert!(
            store.delete_secret(&info.name).unwrap() && !store.delete_secret(&info.name).unwrap()
        );
        drop(store);
        for entry in fs::read_dir(directory.path()).unwrap() {
            let content = fs::read(entry.unwrap().path()).unwrap();
            assert!(!String::from_utf8_lossy(&content).contains("hunter"));
        }
    }
}
