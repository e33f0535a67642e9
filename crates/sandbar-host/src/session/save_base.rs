//! Making a base from a session: a copy of its volume that outlives it.

use std::sync::Arc;

use jiff::Timestamp;
use sandbar_core::{BaseInfo, BaseName, Error, ErrorCode, Result, SaveBase, SessionId, SnapshotName};
use sandbar_storage::{ForkPoint, base_exists};

use super::{create::HOST_BASE, notes};
use crate::{
    Host,
    host::Inner,
    saved_bases::SavedBase,
    state::{Ground, Intent, IntentId, SavedBaseRecord, SessionRecord},
    verb::{Call, Verb},
};

impl Host {
    /// Makes a base from a session as it was at a snapshot, or as it is now. It is independent of the session from then on,
    /// and so are sessions made from it of the base.
    pub async fn save_base(
        &self,
        id: &SessionId,
        from: Option<&SnapshotName>,
        name: &BaseName,
        note: Option<String>,
    ) -> Result<BaseInfo> {
        self.save_base_as(id, SaveBase { from: from.cloned(), note, ..SaveBase::new(name.clone()) }).await
    }

    /// As [`save_base`](Self::save_base), and with environment of its own.
    pub async fn save_base_as(&self, id: &SessionId, request: SaveBase) -> Result<BaseInfo> {
        let target = id.clone();
        let call = Call::on(id, Verb::SaveBase)
            .with("base", request.name.as_str())
            .with("from", request.from.as_ref().map(SnapshotName::as_str));
        self.run(call, move |inner| inner.save_base(&target, &request)).await
    }

    /// The note of a saved base. Other bases have none.
    pub async fn base_note(&self, name: &BaseName) -> Result<Option<String>> {
        let name = name.clone();
        self.run(Call::of(Verb::GetBaseNote), move |inner| match inner.saved_bases.get(&name) {
            Some(_) => inner.state.base_note(&name),
            None => inner.storage.base(&name).map(|_| None).map_err(|error| inner.or_no_base(error, &name)),
        })
        .await
    }

    /// Changes the note of a saved base.
    pub async fn set_base_note(&self, name: &BaseName, note: Option<&str>) -> Result<()> {
        let (name, note) = (name.clone(), note.map(ToOwned::to_owned));
        let call = Call::of(Verb::SetBaseNote).with("base", name.as_str());
        self.run(call, move |inner| {
            check_note(note.as_deref())?;
            if inner.state.set_base_note(&name, note.as_deref())? {
                return Ok(());
            }
            inner.storage.base(&name).map_err(|error| inner.or_no_base(error, &name))?;
            Err(Error::new(ErrorCode::InvalidState, format!("base `{name}` was not made from a session"))
                .with_field("name")
                .with_hint("only a saved base has a note"))
        })
        .await
    }

    /// Saved bases by name, each with its note.
    pub async fn saved_bases(&self) -> Result<Vec<(BaseInfo, Option<String>)>> {
        self.run(Call::of(Verb::ListBases), |inner| {
            let bases = inner.saved_bases.all().into_iter();
            bases.map(|base| Ok((inner.saved_info(&base.record), inner.state.base_note(&base.record.name)?))).collect()
        })
        .await
    }
}

fn check_note(note: Option<&str>) -> Result<()> {
    note.map_or(Ok(()), |note| notes::check_text("note", note))
}

impl Inner {
    fn save_base(&self, id: &SessionId, request: &SaveBase) -> Result<BaseInfo> {
        request.validate()?;
        check_note(request.note.as_deref())?;
        let session = self.session(id)?;
        let _entry = session.gate.enter_shared()?;
        let source = self.present(id)?;
        if let Some(name) = &request.from {
            self.require_snapshot(id, name)?;
        }
        let claim = self.saved_bases.claim(&request.name)?;
        self.require_free_name(&request.name)?;
        self.require_space()?;
        let volume = SessionId::new(format!("base-{}", SessionId::random()))?;
        let intent = self.state.intend(&Intent::SaveBase { volume: volume.clone() })?;
        let point = request.from.clone().map_or(ForkPoint::Now, ForkPoint::Snapshot);
        let order = session.order_storage();
        let copied = self.copy_at(&point, &session, &source, || self.storage.fork(id, &point, &volume, None));
        drop(order);
        let made = copied.and_then(|()| {
            let size = self.space_used(&volume);
            let created = Timestamp::now();
            let (name, volume) = (request.name.clone(), volume.clone());
            let record = SavedBaseRecord { name, volume, ground: ground(&source, request), created, size };
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
                    tracing::error!(session = %id, error = undo.chain(), "could not undo a base that was half saved");
                });
                Err(error)
            }
        }
    }

    /// `BaseExists` when the storage has a base of this name, or will: the host makes its own when it is first needed.
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

    /// What callers are told of a saved base.
    pub(super) fn saved_info(&self, record: &SavedBaseRecord) -> BaseInfo {
        // One whose ground cannot be read is listed all the same.
        let mut env = self.storage.base(&record.ground.base).map(|base| base.env).unwrap_or_default();
        env.extend(record.ground.env.clone());
        let source = "session".to_owned();
        BaseInfo { name: record.name.clone(), source, created: record.created, size: record.size, env }
    }

    /// Forgets a saved base, then removes its volume.
    pub(super) fn delete_saved(&self, base: &Arc<SavedBase>) -> Result<()> {
        self.admit()?;
        let record = &base.record;
        let forgotten = base.forget(&self.saved_bases, || {
            self.state.transaction(|database| {
                record.delete(database)?;
                Intent::DropBase { volume: record.volume.clone() }.insert(database)
            })
        })?;
        // Somebody else was quicker.
        let Some(rest) = forgotten else { return Err(self.no_base(&record.name)) };
        let _turn = self.saved_bases.wait_to_drop();
        self.drop_base_volume(rest, &record.volume);
        Ok(())
    }

    /// Removes the volume of a base that is no more; the janitor tries again what fails. The caller has its turn at it.
    pub(super) fn drop_base_volume(&self, intent: IntentId, volume: &SessionId) {
        if let Err(error) = self.storage.delete(volume).and_then(|()| self.state.forget(intent)) {
            tracing::warn!(%volume, error = error.chain(), "could not delete the volume of a base that is no more");
        }
    }

    /// The error, or one that knows saved bases as well.
    fn or_no_base(&self, error: Error, name: &BaseName) -> Error {
        if error.code() == ErrorCode::BaseNotFound { self.no_base(name) } else { error }
    }
}

fn ground(source: &SessionRecord, request: &SaveBase) -> Ground {
    let mut env = source.ground.as_ref().map(|ground| ground.env.clone()).unwrap_or_default();
    env.extend(request.env.clone());
    Ground { base: source.stands_on().clone(), env }
}
