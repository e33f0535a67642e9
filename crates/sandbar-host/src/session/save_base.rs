//! Saving a session as a base: a copy of its volume that outlives it.

use std::sync::Arc;

use jiff::Timestamp;
use sandbar_core::{
    BaseInfo, BaseName, Error, ErrorCode, HOST_BASE, Result, SaveBase, SessionId, SnapshotName,
};
use sandbar_storage::{ForkPoint, base_exists};

use super::notes;
use crate::{
    Host,
    engine::Engine,
    saved_bases::SavedBase,
    state::{Ground, Intent, IntentId, SavedBaseRecord, SessionRecord},
    verb::{Call, Verb},
};

impl Host {
    /// Saves a session at a snapshot, or as it is now, as a base. The base is independent of the
    /// session, and sessions created from it are independent of the base.
    pub async fn save_base(
        &self,
        id: &SessionId,
        from: Option<&SnapshotName>,
        name: &BaseName,
        note: Option<String>,
    ) -> Result<BaseInfo> {
        self.save_base_as(
            id,
            SaveBase {
                from: from.cloned(),
                note,
                ..SaveBase::new(name.clone())
            },
        )
        .await
    }

    /// As [`save_base`](Self::save_base), with additional environment variables.
    pub async fn save_base_as(&self, id: &SessionId, request: SaveBase) -> Result<BaseInfo> {
        let target = id.clone();
        let call = Call::on(id, Verb::SaveBase)
            .with("base", request.name.as_str())
            .with("from", request.from.as_ref().map(SnapshotName::as_str));
        self.run(call, move |engine| engine.save_base(&target, &request))
            .await
    }

    /// Returns the note of a saved base. Imported bases have none.
    pub async fn base_note(&self, name: &BaseName) -> Result<Option<String>> {
        let name = name.clone();
        self.run(Call::of(Verb::GetBaseNote), move |engine| {
            match engine.saved_bases.get(&name) {
                Some(_) => engine.state.base_note(&name),
                None => engine
                    .storage
                    .base(&name)
                    .map(|_| None)
                    .map_err(|error| engine.or_no_base(error, &name)),
            }
        })
        .await
    }

    /// Sets the note of a saved base.
    pub async fn set_base_note(&self, name: &BaseName, note: Option<&str>) -> Result<()> {
        let (name, note) = (name.clone(), note.map(ToOwned::to_owned));
        let call = Call::of(Verb::SetBaseNote).with("base", name.as_str());
        self.run(call, move |engine| {
            check_note(note.as_deref())?;
            if engine.state.set_base_note(&name, note.as_deref())? {
                return Ok(());
            }
            engine
                .storage
                .base(&name)
                .map_err(|error| engine.or_no_base(error, &name))?;
            Err(Error::new(
                ErrorCode::InvalidState,
                format!("base `{name}` was not saved from a session"),
            )
            .with_field("name")
            .with_hint("only a saved base has a note"))
        })
        .await
    }

    /// Lists the saved bases with their notes, by name.
    pub async fn saved_bases(&self) -> Result<Vec<(BaseInfo, Option<String>)>> {
        self.run(Call::of(Verb::ListBases), |engine| {
            let bases = engine.saved_bases.all().into_iter();
            bases
                .map(|base| {
                    Ok((
                        engine.saved_info(&base.record),
                        engine.state.base_note(&base.record.name)?,
                    ))
                })
                .collect()
        })
        .await
    }
}

fn check_note(note: Option<&str>) -> Result<()> {
    note.map_or(Ok(()), |note| notes::check_text("note", note))
}

impl Engine {
    fn save_base(&self, id: &SessionId, request: &SaveBase) -> Result<BaseInfo> {
        request.validate()?;
        check_note(request.note.as_deref())?;
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared()?;
        let source = self.present(id)?;
        if let Some(name) = &request.from {
            self.require_snapshot(id, name)?;
        }
        let claim = self.saved_bases.claim(&request.name)?;
        self.require_free_name(&request.name)?;
        self.require_space()?;
        let volume = SessionId::new(format!("base-{}", SessionId::random()))?;
        let intent = self.state.intend(&Intent::SaveBase {
            volume: volume.clone(),
        })?;
        let point = request
            .from
            .clone()
            .map_or(ForkPoint::Now, ForkPoint::Snapshot);
        let order = session.order_storage();
        let copied = self.copy_at(&point, &session, &source, || {
            self.storage.fork(id, &point, &volume, None)
        });
        drop(order);
        let made = copied.and_then(|()| {
            let size = self.space_used(&volume);
            let created = Timestamp::now();
            let (name, volume) = (request.name.clone(), volume.clone());
            let record = SavedBaseRecord {
                name,
                volume,
                ground: ground(&source, request),
                created,
                size,
            };
            self.state.transaction(|database| {
                record.insert(request.note.as_deref(), database)?;
                intent.clear(database)
            })?;
            Ok(record)
        });
        match made {
            Ok(record) => {
                let info = self.saved_info(&record);
                claim.keep(record);
                Ok(info)
            }
            Err(error) => {
                self.storage.delete(&volume).and_then(|()| self.state.forget(intent)).unwrap_or_else(|undo| {
                    tracing::error!(session = %id, error = undo.chain(), "could not undo a failed save of a base");
                });
                Err(error)
            }
        }
    }

    /// Refuses a name that an imported base has, and `host`, which is imported on first use.
    fn require_free_name(&self, name: &BaseName) -> Result<()> {
        if name.as_str() == HOST_BASE {
            return Err(base_exists(name));
        }
        match self.storage.base(name) {
            Ok(_) => Err(base_exists(name)),
            Err(error) if error.code() == ErrorCode::BaseNotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns a saved base as callers see it.
    pub(super) fn saved_info(&self, record: &SavedBaseRecord) -> BaseInfo {
        // Listed without the environment of its ground if that cannot be read.
        let mut env = self
            .storage
            .base(&record.ground.base)
            .map(|base| base.env)
            .unwrap_or_default();
        env.extend(record.ground.env.clone());
        let source = "session".to_owned();
        BaseInfo {
            name: record.name.clone(),
            source,
            created: record.created,
            size: record.size,
            env,
        }
    }

    /// Deletes the record of a saved base, then its volume.
    pub(super) fn delete_saved(&self, base: &Arc<SavedBase>) -> Result<()> {
        self.admit()?;
        let record = &base.record;
        let forgotten = base.forget(&self.saved_bases, || {
            self.state.transaction(|database| {
                record.delete(database)?;
                Intent::DropBase {
                    volume: record.volume.clone(),
                }
                .insert(database)
            })
        })?;
        // Another caller has deleted it.
        let Some(rest) = forgotten else {
            return Err(self.no_base(&record.name));
        };
        let _turn = self.saved_bases.wait_to_drop();
        self.drop_base_volume(rest, &record.volume);
        Ok(())
    }

    /// Deletes the volume of a deleted base; the janitor repeats it after a failure. The caller
    /// holds `SavedBases::dropping`.
    pub(super) fn drop_base_volume(&self, intent: IntentId, volume: &SessionId) {
        if let Err(error) = self
            .storage
            .delete(volume)
            .and_then(|()| self.state.forget(intent))
        {
            tracing::warn!(%volume, error = error.chain(), "could not delete the volume of a deleted base");
        }
    }

    /// Replaces a `BaseNotFound` of the storage by one that lists saved bases as well.
    fn or_no_base(&self, error: Error, name: &BaseName) -> Error {
        if error.code() == ErrorCode::BaseNotFound {
            self.no_base(name)
        } else {
            error
        }
    }
}

fn ground(source: &SessionRecord, request: &SaveBase) -> Ground {
    let mut env = source
        .ground
        .as_ref()
        .map(|ground| ground.env.clone())
        .unwrap_or_default();
    env.extend(request.env.clone());
    Ground {
        base: source.base_in_use().clone(),
        env,
    }
}
