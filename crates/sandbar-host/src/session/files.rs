//! Single files of a session: read, write, look, list, move, remove.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use sandbar_core::{Error, ErrorCode, FileDetails, FileStat, MakeDirOptions, Result, SessionId, WriteOptions};
use sandbar_storage::session_tree::{Draft, SessionTree, absolute};

use super::Session;
use crate::{
    Host,
    host::{Inner, blocking},
    verb::{Call, Verb},
};

impl Host {
    /// Opens a file for reading, following links inside the session.
    pub async fn open_file(&self, id: &SessionId, path: &Path) -> Result<(File, FileStat)> {
        self.with_tree(Verb::ReadFile, id, path, SessionTree::open_file).await
    }

    /// What is at `path`; a link is not followed.
    pub async fn stat(&self, id: &SessionId, path: &Path) -> Result<FileStat> {
        self.with_tree(Verb::Stat, id, path, SessionTree::stat).await
    }

    /// Entries below a directory, `depth` levels of them, sorted by path. Links are not followed. More than one answer
    /// may hold is an error.
    pub async fn list_dir(&self, id: &SessionId, path: &Path, depth: u32) -> Result<Vec<FileStat>> {
        self.with_tree(Verb::ListDir, id, path, move |tree, path| tree.list_all(path, depth)).await
    }

    /// What is at `path`, where it leads should it be a link, and the attributes of the file.
    pub async fn file_details(&self, id: &SessionId, path: &Path) -> Result<FileDetails> {
        self.with_tree(Verb::Stat, id, path, SessionTree::details).await
    }

    /// [`list_dir`](Self::list_dir) with what [`file_details`](Self::file_details) tells of each entry.
    pub async fn list_details(&self, id: &SessionId, path: &Path, depth: u32) -> Result<Vec<FileDetails>> {
        self.with_tree(Verb::ListDir, id, path, move |tree, path| tree.list_details(path, depth)).await
    }

    /// Makes a directory; says whether it was not there already. Anything else there is an error.
    pub async fn make_dir(&self, id: &SessionId, path: &Path, options: MakeDirOptions) -> Result<bool> {
        self.change_tree(Call::on(id, Verb::MakeDir), id, path, move |tree, path| tree.make_directory(path, options))
            .await
    }

    /// Gives a file, directory or link another name. A file that has it is replaced; `options` are for the directories
    /// above it.
    pub async fn move_path(&self, id: &SessionId, from: &Path, to: &Path, options: MakeDirOptions) -> Result<()> {
        let to = absolute(to).map_err(|error| error.with_field("new_path"))?;
        let call = Call::on(id, Verb::MovePath).with("new_path", to.to_string_lossy());
        self.change_tree(call, id, from, move |tree, from| tree.rename(from, &to, options)).await
    }

    /// Removes a file or link, or a directory with everything in it. Nothing there is success.
    pub async fn remove_path(&self, id: &SessionId, path: &Path) -> Result<()> {
        self.change_tree(Call::on(id, Verb::RemovePath), id, path, SessionTree::remove).await
    }

    /// Starts writing a file. Nothing is seen of it until it is committed; dropped, it changes nothing.
    pub async fn write_file(&self, id: &SessionId, path: &Path, options: WriteOptions) -> Result<FileWriter> {
        let (id, path) = (id.clone(), absolute(path)?);
        let call = Call::on(&id, Verb::BeginWriteFile);
        self.run(call, move |inner| FileWriter::start(inner, &id, path, options)).await
    }

    /// Runs `work` on the mounted tree of a session.
    pub(super) async fn with_tree<T: Send + 'static>(
        &self,
        verb: Verb,
        id: &SessionId,
        path: &Path,
        work: impl FnOnce(&SessionTree, &Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (id, path) = (id.clone(), absolute(path)?);
        self.run(Call::on(&id, verb), move |inner| {
            let session = inner.session(&id)?;
            let _entry = session.gate.enter_shared()?;
            inner.present(&id)?;
            work(&session.tree(inner)?, &path)
        })
        .await
    }

    /// Changes the mounted tree of a session that may be changed.
    async fn change_tree<T: Send + 'static>(
        &self,
        call: Call,
        id: &SessionId,
        path: &Path,
        work: impl FnOnce(&SessionTree, &Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (id, path) = (id.clone(), absolute(path)?);
        self.run(call.with("path", path.to_string_lossy()), move |inner| {
            let session = inner.session(&id)?;
            let _entry = session.gate.enter_shared()?;
            inner.active(&id)?;
            work(&session.tree(inner)?, &path)
        })
        .await
    }
}

/// A file being written: a temporary beside its place, moved there by [`commit`](Self::commit).
#[derive(Debug)]
pub struct FileWriter {
    session: Arc<Session>,
    inner: Arc<Inner>,
    path: PathBuf,
    draft: SharedDraft,
}

/// A draft its session can take away: one that is rolled back or destroyed must not be held by a half-written file.
pub(super) type SharedDraft = Arc<Mutex<Option<Draft>>>;

impl FileWriter {
    fn start(inner: &Arc<Inner>, id: &SessionId, path: PathBuf, options: WriteOptions) -> Result<Self> {
        let session = inner.session(id)?;
        let _entry = session.gate.enter_shared()?;
        inner.active(id)?;
        let draft = session.tree(inner)?.draft(&path, options)?;
        let draft = Arc::new(Mutex::new(Some(draft)));
        session.remember_draft(&draft);
        Ok(Self { session, inner: Arc::clone(inner), path, draft })
    }

    /// Adds bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let (draft, session) = (Arc::clone(&self.draft), Arc::clone(&self.session));
        blocking(move || {
            let mut draft = lock(&draft);
            let Some(open) = draft.as_mut() else { return Err(taken_away(&session.id)) };
            open.write(&bytes).inspect_err(|_| {
                draft.take();
            })
        })
        .await
    }

    /// Gives the file an extended attribute, in the same step as its content; its name begins with `user.`.
    pub async fn set_attribute(&self, name: &str, value: Vec<u8>) -> Result<()> {
        let (draft, session, name) = (Arc::clone(&self.draft), Arc::clone(&self.session), name.to_owned());
        blocking(move || match lock(&draft).as_ref() {
            Some(open) => open.set_attribute(&name, &value),
            None => Err(taken_away(&session.id)),
        })
        .await
    }

    /// Puts the file into its place in one step.
    pub async fn commit(self) -> Result<()> {
        let call = Call::on(&self.session.id, Verb::WriteFile).with("path", self.path.to_string_lossy());
        blocking(move || {
            self.inner.perform(call, |inner| {
                let _entry = self.session.gate.enter_shared()?;
                inner.admit()?;
                inner.active(&self.session.id)?;
                let Some(draft) = lock(&self.draft).take() else { return Err(taken_away(&self.session.id)) };
                draft.commit()
            })
        })
        .await
    }
}

pub(super) fn lock(draft: &Mutex<Option<Draft>>) -> MutexGuard<'_, Option<Draft>> {
    draft.lock().unwrap_or_else(PoisonError::into_inner)
}

fn taken_away(id: &SessionId) -> Error {
    Error::new(ErrorCode::InvalidState, format!("session `{id}` was rolled back or stopped while the file was written"))
        .with_hint("write it again")
}
