//! Rows of processes.

use jiff::Timestamp;
use sandbar_core::{
    ProcessExit, ProcessId, ProcessInfo, ProcessSpec, ProcessStatus, Result, SessionId,
};

use super::{Database, StateStore, from_json, to_json};

impl StateStore {
    /// Inserts a process.
    pub(crate) fn insert_process(&self, info: &ProcessInfo, spec: &ProcessSpec) -> Result<()> {
        let sql = "INSERT INTO process (session, id, spec, state) VALUES (?1, ?2, ?3, ?4)";
        let values = (
            info.session.as_str(),
            info.id.as_str(),
            to_json(spec)?,
            to_json(info)?,
        );
        self.with(|database| database.execute(sql, values).map(|_| ()))
    }

    /// Updates a process. Does nothing if it was deleted.
    pub(crate) fn update_process(&self, info: &ProcessInfo) -> Result<()> {
        self.with(|database| update(database, info))
    }

    /// Lists the processes of a session, oldest first.
    pub(crate) fn processes(&self, session: &SessionId) -> Result<Vec<ProcessInfo>> {
        let sql = "SELECT state FROM process WHERE session = ?1 ORDER BY number";
        let texts =
            self.with(|database| database.query(sql, [session.as_str()], |row| row.text(0)))?;
        texts.iter().map(|text| from_json(text)).collect()
    }

    pub(crate) fn forget_processes(&self, session: &SessionId, ids: &[ProcessId]) -> Result<()> {
        let sql = "DELETE FROM process WHERE session = ?1 AND id = ?2";
        self.transaction(|database| {
            ids.iter().try_for_each(|id| {
                database
                    .execute(sql, [session.as_str(), id.as_str()])
                    .map(|_| ())
            })
        })
    }

    /// Marks every process of an earlier host as exited: it ended with its box.
    pub(crate) fn end_processes(&self, reason: &str) -> Result<()> {
        self.transaction(|database| {
            let texts = database.query("SELECT state FROM process ORDER BY number", [], |row| {
                row.text(0)
            })?;
            for text in texts {
                let mut info: ProcessInfo = from_json(&text)?;
                if info.status == ProcessStatus::Exited {
                    continue;
                }
                let nothing = ProcessExit {
                    code: None,
                    signal: None,
                    oom_killed: false,
                    not_ready: false,
                    reason: Some(reason.to_owned()),
                    at: Timestamp::now(),
                };
                (info.status, info.pid, info.address) = (ProcessStatus::Exited, None, None);
                info.exit = Some(nothing);
                update(database, &info)?;
            }
            Ok(())
        })
    }
}

fn update(database: &Database, info: &ProcessInfo) -> Result<()> {
    let sql = "UPDATE process SET state = ?3 WHERE session = ?1 AND id = ?2";
    let values = (info.session.as_str(), info.id.as_str(), to_json(info)?);
    database.execute(sql, values).map(|_| ())
}
