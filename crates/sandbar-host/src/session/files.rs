//! Single files of a session: read, write, look, list.

use std::{
    fs::File,
    io::Write as _,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use jiff::Timestamp;
use rustix::{
    fs::{
        AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, openat, readlinkat, renameat,
        statat, unlinkat,
    },
    io::Errno,
};
use sandbar_core::{ByteCount, EntryType, Error, ErrorCode, FileStat, Result, SessionId, WriteOptions};

use super::{
    Root, Session,
    confined::{Tree, absolute, failure, is_a_directory},
};
use crate::{
    Host,
    host::{Inner, blocking},
};

impl Host {
    /// Opens a file for reading, following links inside the session.
    pub async fn open_file(&self, id: &SessionId, path: &Path) -> Result<(File, FileStat)> {
        self.with_tree(id, path, |tree, path, root| {
            let found = tree.reach(path, OFlags::PATH)?;
            let stat = fstat(&found).map_err(|errno| failure(path, errno))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {}
                FileType::Directory => return Err(is_a_directory(path)),
                _ => {
                    return Err(Error::invalid("path", format!("`{}` is not a regular file", path.display()))
                        .with_hint("read it from a command in the session"));
                }
            }
            // Looked at before it is opened: opening a device or a pipe can have effects.
            let file = File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
                .map_err(|error| Error::io(format!("open `{}`", path.display()), error))?;
            Ok((file, root.seen_inside(file_stat(path.to_owned(), &stat, None)?)))
        })
        .await
    }

    /// What is at `path`; a link is not followed.
    pub async fn stat(&self, id: &SessionId, path: &Path) -> Result<FileStat> {
        self.with_tree(id, path, |tree, path, root| {
            let found = tree.reach(path, OFlags::PATH | OFlags::NOFOLLOW)?;
            let stat = fstat(&found).map_err(|errno| failure(path, errno))?;
            let target = link_target(&found, Path::new(""), &stat).map_err(|errno| failure(path, errno))?;
            file_stat(path.to_owned(), &stat, target).map(|stat| root.seen_inside(stat))
        })
        .await
    }

    /// Entries below a directory, `depth` levels of them, sorted by path. Links are not followed.
    pub async fn list_dir(&self, id: &SessionId, path: &Path, depth: u32) -> Result<Vec<FileStat>> {
        self.with_tree(id, path, move |tree, path, root| {
            let mut entries = Vec::new();
            list(&tree.directory(path)?, path, depth.max(1), &mut entries)?;
            entries.sort_by(|a, b| a.path.cmp(&b.path));
            Ok(entries.into_iter().map(|entry| root.seen_inside(entry)).collect())
        })
        .await
    }

    /// Starts writing a file. Nothing is seen of it until it is committed; dropped, it changes nothing.
    pub async fn write_file(&self, id: &SessionId, path: &Path, options: WriteOptions) -> Result<FileWriter> {
        let (id, path) = (id.clone(), absolute(path)?);
        self.run(move |inner| FileWriter::start(inner, &id, &path, options)).await
    }

    /// Runs `work` on the mounted tree of a session.
    pub(super) async fn with_tree<T: Send + 'static>(
        &self,
        id: &SessionId,
        path: &Path,
        work: impl FnOnce(&Tree, &Path, &Root) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (id, path) = (id.clone(), absolute(path)?);
        self.run(move |inner| {
            let session = inner.session(&id)?;
            let _entry = session.gate.enter_shared()?;
            inner.usable(&id)?;
            let root = session.root(inner)?;
            work(&Tree::open(&root.path)?, &path, &root)
        })
        .await
    }
}

fn list(directory: &OwnedFd, path: &Path, depth: u32, entries: &mut Vec<FileStat>) -> Result<()> {
    let complain = |errno| failure(path, errno);
    for entry in Dir::read_from(directory).map_err(complain)? {
        let entry = entry.map_err(complain)?;
        let name = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
        if name == Path::new(".") || name == Path::new("..") {
            continue;
        }
        let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Gone since it was listed.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(complain(errno)),
        };
        let target = link_target(directory, name, &stat).map_err(complain)?;
        entries.push(file_stat(path.join(name), &stat, target)?);
        if depth > 1 && FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(directory, name, flags, Mode::empty()) {
                Ok(below) => list(&below, &path.join(name), depth - 1, entries)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(complain(errno)),
            }
        }
    }
    Ok(())
}

fn link_target(directory: &OwnedFd, name: &Path, stat: &Stat) -> rustix::io::Result<Option<PathBuf>> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    let target = readlinkat(directory, name, Vec::new())?;
    Ok(Some(PathBuf::from(std::ffi::OsStr::from_bytes(target.as_bytes()))))
}

fn file_stat(path: PathBuf, stat: &Stat, symlink_target: Option<PathBuf>) -> Result<FileStat> {
    let modified = Timestamp::new(stat.st_mtime, i32::try_from(stat.st_mtime_nsec).unwrap_or(0)).map_err(|error| {
        Error::internal(format!("the time of `{}` is out of range", path.display())).with_source(error)
    })?;
    Ok(FileStat {
        path,
        entry: EntryType::of_mode(stat.st_mode),
        size: ByteCount(u64::try_from(stat.st_size).unwrap_or(0)),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified,
        symlink_target,
    })
}

/// A file being written: a temporary beside its place, moved there by [`commit`](Self::commit).
#[derive(Debug)]
pub struct FileWriter {
    session: Arc<Session>,
    inner: Arc<Inner>,
    draft: SharedDraft,
}

/// A draft its session can take away: one that is rolled back or destroyed must not be held by a half-written file.
pub(super) type SharedDraft = Arc<Mutex<Option<Draft>>>;

/// The temporary; removed when dropped.
#[derive(Debug)]
pub(super) struct Draft {
    directory: OwnedFd,
    file: File,
    temporary: PathBuf,
    name: PathBuf,
    mode: Mode,
    committed: bool,
}

impl Draft {
    /// The temporary has become the file.
    fn keep(&mut self) {
        self.committed = true;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.committed
            && let Err(errno) = unlinkat(&self.directory, &self.temporary, AtFlags::empty())
            && errno != Errno::NOENT
        {
            tracing::warn!(%errno, "could not remove a temporary file");
        }
    }
}

impl FileWriter {
    fn start(inner: &Arc<Inner>, id: &SessionId, path: &Path, options: WriteOptions) -> Result<Self> {
        let session = inner.session(id)?;
        let _entry = session.gate.enter_shared()?;
        inner.usable(id)?;
        let root = session.root(inner)?;
        let _acting = root.act()?;
        let place = Tree::open(&root.path)?.place(path, options.create_dirs)?;
        let complain = |errno: Errno| failure(path, errno);
        let temporary = PathBuf::from(format!(".sandbar-{}", SessionId::random()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&place.directory, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(complain)?;
        let mode = options.mode.or(place.existing.map(|existing| existing.st_mode & 0o7777)).unwrap_or(0o644);
        let draft = Draft {
            directory: place.directory,
            file: file.into(),
            temporary,
            name: place.name,
            mode: Mode::from_raw_mode(mode),
            committed: false,
        };
        if let Some(existing) = &place.existing {
            let keep = |owner| root.shown(root.inside(owner));
            let (user, group) = (Uid::from_raw(keep(existing.st_uid)), Gid::from_raw(keep(existing.st_gid)));
            fchown(&draft.file, Some(user), Some(group)).map_err(complain)?;
        }
        let draft = Arc::new(Mutex::new(Some(draft)));
        session.remember_draft(&draft);
        Ok(Self { session, inner: Arc::clone(inner), draft })
    }

    /// Adds bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let (draft, session) = (Arc::clone(&self.draft), Arc::clone(&self.session));
        blocking(move || {
            let mut draft = lock(&draft);
            let Some(open) = draft.as_mut() else { return Err(taken_away(&session.id)) };
            let written = open.file.write_all(&bytes);
            written.map_err(|error| Error::io(format!("write `{}`", open.name.display()), error)).inspect_err(|_| {
                // Part of the bytes may be there; nothing good can come of it.
                draft.take();
            })
        })
        .await
    }

    /// Puts the file into its place in one step.
    pub async fn commit(self) -> Result<()> {
        blocking(move || {
            let _entry = self.session.gate.enter_shared()?;
            self.inner.admit()?;
            let Some(mut draft) = lock(&self.draft).take() else { return Err(taken_away(&self.session.id)) };
            // Last, because some file systems take set-uid bits away when a file is written.
            fchmod(&draft.file, draft.mode).map_err(|errno| failure(&draft.name, errno))?;
            renameat(&draft.directory, &draft.temporary, &draft.directory, &draft.name)
                .map_err(|errno| failure(&draft.name, errno))?;
            draft.keep();
            Ok(())
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
