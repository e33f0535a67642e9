//! Creating a session.

use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use sandbar_core::{
    Error, ErrorCode, HOST_BASE, Result, SessionId, SessionInfo, SessionSpec, SessionState,
};
use sandbar_storage::{ImportSource, VolumeSpec, import_base};

use super::{furnish::Furnishing, root::Root};
use crate::{
    Host,
    engine::Engine,
    state::{Intent, SessionRecord},
    verb::{Call, Verb},
};

impl Host {
    /// Creates a session. A failed call leaves nothing behind.
    pub async fn create_session(&self, mut spec: SessionSpec) -> Result<SessionInfo> {
        let id = spec.id.get_or_insert_with(SessionId::random);
        let call = Call::on(id, Verb::CreateSession).with("base", spec.base.as_str());
        self.run(call, move |engine| engine.create(&spec)).await
    }
}

impl Engine {
    fn create(self: &Arc<Self>, spec: &SessionSpec) -> Result<SessionInfo> {
        self.admit()?;
        spec.validate()?;
        self.runtime.admit(&spec.resources, spec.network.as_ref())?;
        if let Some(policy) = &spec.network {
            self.require_secrets(policy)?;
        }
        self.admit_rights(spec.root_rights)?;
        let saved = self.saved_bases.get(&spec.base);
        let ground = saved.as_ref().map(|base| base.record.ground.clone());
        let record = SessionRecord {
            ground,
            ..self.new_record(spec)?
        };
        let reservation = self.reserve(std::slice::from_ref(&record.id))?;
        self.require_space()?;
        if saved.is_none() {
            self.require_base(spec)?;
        }
        let intent = self.state.intend(&Intent::Create {
            sessions: vec![record.id.clone()],
        })?;
        let volume = if let Some(base) = &saved {
            base.copy_to(self, &record)
        } else {
            let volume = VolumeSpec {
                base: record.base.clone(),
                quota: record.quota,
            };
            self.storage.create(&record.id, &volume)
        };
        let made = volume.and_then(|()| {
            let root = match self.root_for(&record)? {
                None if spec.workspace_user.is_some() => Some(Root::mount(self, &record.id)?),
                root => root,
            };
            if let Some(root) = &root {
                let workspace_user = spec.workspace_user.as_deref();
                Furnishing {
                    session: &record.id,
                    rights: record.root_rights,
                    workspace_user,
                }
                .apply(root);
            }
            self.state.transaction(|database| {
                record.insert(database)?;
                intent.clear(database)
            })?;
            Ok(root)
        });
        let root = match made {
            Ok(root) => root,
            Err(error) => {
                // If the volume cannot be deleted now, the intent stays and recovery deletes it at
                // the next start.
                self.storage.delete(&record.id).and_then(|()| self.state.forget(intent)).unwrap_or_else(|undo| {
                    tracing::error!(session = %record.id, error = undo.chain(), "could not undo a failed create");
                });
                return Err(error);
            }
        };
        reservation.keep();
        if let Some(root) = root {
            self.session(&record.id)?.adopt_root(root);
        }
        self.schedule_janitor(&record);
        if self.config.start_boxes_at_once {
            // Not an error of this call: the first command starts the box again and gets the
            // reason.
            if let Err(error) = self
                .session(&record.id)
                .and_then(|session| session.sandbox(self, &record))
            {
                tracing::warn!(session = %record.id, error = error.chain(), "could not start the box at once");
            }
        }
        self.info(record)
    }

    /// Wakes the janitor if the session may expire or become idle before its next round.
    pub(super) fn schedule_janitor(&self, record: &SessionRecord) {
        if record.expires.is_some() || record.idle_timeout.is_some() {
            self.something_due.notify_one();
        }
    }

    fn new_record(&self, spec: &SessionSpec) -> Result<SessionRecord> {
        let created = Timestamp::now();
        let expires = match spec.time_to_live {
            None => None,
            Some(time_to_live) => Some(created.checked_add(time_to_live).map_err(|error| {
                Error::invalid("timeout", "time to live is too long")
                    .with_hint("use a shorter one, or none")
                    .with_source(error)
            })?),
        };
        Ok(SessionRecord {
            id: spec.id.clone().unwrap_or_else(SessionId::random),
            state: SessionState::Active,
            base: spec.base.clone(),
            ground: None,
            labels: spec.labels.clone(),
            resources: spec.resources.clone(),
            env: spec.env.clone(),
            network: spec.network.clone(),
            quota: spec.quota.or(self.defaults.quota),
            created,
            expires,
            on_expiry: spec.on_expiry,
            idle_timeout: spec.idle_timeout.or(self.config.idle_timeout()),
            pack: None,
            root_rights: spec.root_rights,
            turns: 0,
            parent: None,
            head: None,
        })
    }

    /// Requires the base of a new session. Imports the `host` base on first use.
    fn require_base(&self, spec: &SessionSpec) -> Result<()> {
        match self.storage.base(&spec.base) {
            Err(error)
                if error.code() == ErrorCode::BaseNotFound && spec.base.as_str() == HOST_BASE => {}
            Err(error) if error.code() == ErrorCode::BaseNotFound => {
                return Err(self.no_base(&spec.base));
            }
            outcome => return outcome.map(|_| ()),
        }
        let _turn = self
            .host_base
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.storage.base(&spec.base).is_ok() {
            return Ok(());
        }
        tracing::info!("importing the `host` base from this machine's programs");
        import_base(&*self.storage, &spec.base, &ImportSource::Host, &|_| {}).map(|_| ())
    }
}
