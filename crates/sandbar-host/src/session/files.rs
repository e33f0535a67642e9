//! Single files of a session: read, write, stat, list, move and remove.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use sandbar_core::{
    Error, ErrorCode, FileDetails, FileStat, MakeDirOptions, Result, SessionId, WriteOptions,
};
use sandbar_tree::session_tree::{Draft, SessionTree, absolute};

use super::Session;
use crate::{
    Host,
    engine::Engine,
    verb::{Call, Verb},
    worker::{ListContents, Request, WalkJob, block_on, path_bytes},
};

impl Host {
    /// Opens a file for reading. Follows symbolic links inside the session.
    pub async fn open_file(&self, id: &SessionId, path: &Path) -> Result<(File, FileStat)> {
        self.with_tree(Verb::ReadFile, id, path, SessionTree::open_file)
            .await
    }

    /// Returns the metadata of `path`. Does not follow a symbolic link.
    pub async fn stat(&self, id: &SessionId, path: &Path) -> Result<FileStat> {
        self.with_tree(Verb::Stat, id, path, SessionTree::stat)
            .await
    }

    /// Lists the entries below a directory, `depth` levels deep, sorted by path. Does not follow
    /// symbolic links. More entries than fit into one response are an error.
    pub async fn list_dir(&self, id: &SessionId, path: &Path, depth: u32) -> Result<Vec<FileStat>> {
        self.walk(id, path, depth, ListContents::Stat, WalkJob::stats)
            .await
    }

    /// Returns the metadata of `path` with its link target and extended attributes.
    pub async fn file_details(&self, id: &SessionId, path: &Path) -> Result<FileDetails> {
        self.with_tree(Verb::Stat, id, path, SessionTree::details)
            .await
    }

    /// As [`list_dir`](Self::list_dir), with [`file_details`](Self::file_details) of each entry.
    pub async fn list_details(
        &self,
        id: &SessionId,
        path: &Path,
        depth: u32,
    ) -> Result<Vec<FileDetails>> {
        self.walk(id, path, depth, ListContents::Details, WalkJob::details)
            .await
    }

    /// Lists a directory in a worker process.
    async fn walk<T: Send + 'static, F: Future<Output = Result<T>>>(
        &self,
        id: &SessionId,
        path: &Path,
        depth: u32,
        contents: ListContents,
        collect: impl FnOnce(WalkJob) -> F + Send + 'static,
    ) -> Result<T> {
        let (id, path) = (id.clone(), absolute(path)?);
        self.run(Call::on(&id, Verb::ListDir), move |engine| {
            let session = engine.session(&id)?;
            let _entry = session.admission.enter_shared()?;
            engine.present(&id)?;
            let tree = session.tree(engine)?;
            let request = Request::List {
                path: path_bytes(&path),
                depth,
                contents,
            };
            block_on(async {
                let (limits, ended) = (&session.walks, &session.streams);
                collect(
                    engine
                        .start_walk(limits, Some(&tree), request, ended)
                        .await?,
                )
                .await
            })
        })
        .await
    }

    /// Creates a directory; returns whether it is new. Anything else at `path` is an error.
    pub async fn make_dir(
        &self,
        id: &SessionId,
        path: &Path,
        options: MakeDirOptions,
    ) -> Result<bool> {
        self.change_tree(Call::on(id, Verb::MakeDir), id, path, move |tree, path| {
            tree.make_directory(path, options)
        })
        .await
    }

    /// Renames a file, directory or symbolic link. Replaces a file at `to`; `options` apply to the
    /// directories above it.
    pub async fn move_path(
        &self,
        id: &SessionId,
        from: &Path,
        to: &Path,
        options: MakeDirOptions,
    ) -> Result<()> {
        let to = absolute(to).map_err(|error| error.with_field("new_path"))?;
        let call = Call::on(id, Verb::MovePath).with("new_path", to.to_string_lossy());
        self.change_tree(call, id, from, move |tree, from| {
            tree.rename(from, &to, options)
        })
        .await
    }

    /// Removes a file or symbolic link, or a directory with everything in it. Succeeds if `path`
    /// does not exist.
    pub async fn remove_path(&self, id: &SessionId, path: &Path) -> Result<()> {
        self.change_tree(
            Call::on(id, Verb::RemovePath),
            id,
            path,
            SessionTree::remove,
        )
        .await
    }

    /// Starts writing a file. It becomes visible when committed; dropping the writer discards it.
    pub async fn write_file(
        &self,
        id: &SessionId,
        path: &Path,
        options: WriteOptions,
    ) -> Result<FileWriter> {
        let (id, path) = (id.clone(), absolute(path)?);
        let call = Call::on(&id, Verb::BeginWriteFile);
        self.run(call, move |engine| {
            FileWriter::start(engine, &id, path, options)
        })
        .await
    }

    /// Runs `work` on the mounted tree of an active or paused session.
    pub(super) async fn with_tree<T: Send + 'static>(
        &self,
        verb: Verb,
        id: &SessionId,
        path: &Path,
        work: impl FnOnce(&SessionTree, &Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (id, path) = (id.clone(), absolute(path)?);
        self.run(Call::on(&id, verb), move |engine| {
            let session = engine.session(&id)?;
            let _entry = session.admission.enter_shared()?;
            engine.present(&id)?;
            work(&session.tree(engine)?, &path)
        })
        .await
    }

    /// Runs `work`, which changes files, on the mounted tree of an active session.
    async fn change_tree<T: Send + 'static>(
        &self,
        call: Call,
        id: &SessionId,
        path: &Path,
        work: impl FnOnce(&SessionTree, &Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (id, path) = (id.clone(), absolute(path)?);
        self.run(call.with("path", path.to_string_lossy()), move |engine| {
            let session = engine.session(&id)?;
            let _entry = session.admission.enter_shared()?;
            engine.active(&id)?;
            work(&session.tree(engine)?, &path)
        })
        .await
    }
}

/// A file being written: a temporary file in the same directory, renamed by
/// [`commit`](Self::commit).
#[derive(Debug)]
pub struct FileWriter {
    session: Arc<Session>,
    engine: Arc<Engine>,
    path: PathBuf,
    draft: SharedDraft,
}

/// A draft that [`Session::stop`] can discard, so that a half-written file does not keep the volume
/// busy.
pub(super) type SharedDraft = Arc<Mutex<Option<Draft>>>;

impl FileWriter {
    fn start(
        engine: &Arc<Engine>,
        id: &SessionId,
        path: PathBuf,
        options: WriteOptions,
    ) -> Result<Self> {
        let session = engine.session(id)?;
        let _entry = session.admission.enter_shared()?;
        engine.active(id)?;
        let draft = session.tree(engine)?.draft(&path, options)?;
        let draft = Arc::new(Mutex::new(Some(draft)));
        session.remember_draft(&draft);
        Ok(Self {
            session,
            engine: Arc::clone(engine),
            path,
            draft,
        })
    }

    /// Appends bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let (draft, session) = (Arc::clone(&self.draft), Arc::clone(&self.session));
        let work = move || {
            let mut draft = lock(&draft);
            let Some(open) = draft.as_mut() else {
                return Err(taken_away(&session.id));
            };
            open.write(&bytes).inspect_err(|_| {
                draft.take();
            })
        };
        self.session.slots.brief(work).await
    }

    /// Sets an extended attribute, which appears together with the content. Its name begins with
    /// `user.`.
    pub async fn set_attribute(&self, name: &str, value: Vec<u8>) -> Result<()> {
        let (draft, session, name) = (
            Arc::clone(&self.draft),
            Arc::clone(&self.session),
            name.to_owned(),
        );
        let work = move || match lock(&draft).as_ref() {
            Some(open) => open.set_attribute(&name, &value),
            None => Err(taken_away(&session.id)),
        };
        self.session.slots.brief(work).await
    }

    /// Renames the file into place, atomically.
    pub async fn commit(self) -> Result<()> {
        let call =
            Call::on(&self.session.id, Verb::WriteFile).with("path", self.path.to_string_lossy());
        let slots = Arc::clone(&self.session.slots);
        let work = move || {
            self.engine.perform(call, |engine| {
                let _entry = self.session.admission.enter_shared()?;
                engine.admit()?;
                engine.active(&self.session.id)?;
                let Some(draft) = lock(&self.draft).take() else {
                    return Err(taken_away(&self.session.id));
                };
                draft.commit()
            })
        };
        slots.brief(work).await
    }
}

pub(super) fn lock(draft: &Mutex<Option<Draft>>) -> MutexGuard<'_, Option<Draft>> {
    draft.lock().unwrap_or_else(PoisonError::into_inner)
}

fn taken_away(id: &SessionId) -> Error {
    Error::new(
        ErrorCode::InvalidState,
        format!("session `{id}` was rolled back or stopped during the write"),
    )
    .with_hint("write it again")
}
