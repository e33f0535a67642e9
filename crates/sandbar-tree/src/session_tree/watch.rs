//! Watches on a part of the tree, with inotify.
//!
//! Directories are watched through descriptors opened inside the tree, so no symbolic link leads a
//! watch out of it. A directory is watched before it is listed: an entry created in between appears
//! in the events, in the listing, or in both.

use std::{
    collections::{HashMap, HashSet},
    ffi::{CString, OsStr},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::{
    fs::{
        FileType, OFlags, RawDir,
        inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    },
    io::Errno,
};
use sandbar_core::{DirChange, DirChangeKind, DirNews, Error, ErrorCode, Result};

use super::tree::{SessionTree, failure};
use crate::descent::EntryStat;

/// Limits on the directories that the watches of one budget hold, and on the bytes of their paths.
const MAX_WATCHED_DIRECTORIES: usize = 16_384;
const MAX_PATH_BYTES: usize = 16 << 20;

/// Limit on the entries of new directories that one read reports. Beyond it, the watch reports an
/// overflow.
const MAX_LISTED_NEWS: usize = 16_384;

/// Limit on the entries that are remembered as reported. Beyond it, some are reported twice.
const MAX_REPORTED: usize = 65_536;

/// Approximate number of events per read.
const BATCH: usize = 512;

/// Limits what several watches hold together: those of one session, for example.
#[derive(Debug)]
pub struct WatchBudget {
    max_directories: usize,
    max_path_bytes: usize,
    max_listed_news: usize,
    directories: AtomicUsize,
    path_bytes: AtomicUsize,
}

impl Default for WatchBudget {
    fn default() -> Self {
        Self {
            max_directories: MAX_WATCHED_DIRECTORIES,
            max_path_bytes: MAX_PATH_BYTES,
            max_listed_news: MAX_LISTED_NEWS,
            directories: AtomicUsize::new(0),
            path_bytes: AtomicUsize::new(0),
        }
    }
}

/// Paths of watched directories, by watch descriptor. They count against a budget.
#[derive(Debug)]
struct WatchedPaths {
    paths: HashMap<i32, PathBuf>,
    budget: Arc<WatchBudget>,
}

impl WatchedPaths {
    /// Returns whether the budget has room for one more directory, and paths of `bytes` bytes.
    fn has_room(&self, bytes: usize) -> bool {
        self.budget.directories.load(Ordering::Relaxed) < self.budget.max_directories
            && self.budget.path_bytes.load(Ordering::Relaxed) + bytes <= self.budget.max_path_bytes
    }

    fn insert(&mut self, watch: i32, path: PathBuf) {
        self.budget.directories.fetch_add(1, Ordering::Relaxed);
        self.budget
            .path_bytes
            .fetch_add(path.as_os_str().len(), Ordering::Relaxed);
        if let Some(replaced) = self.paths.insert(watch, path) {
            self.release(&replaced);
        }
    }

    fn remove(&mut self, watch: i32) {
        if let Some(removed) = self.paths.remove(&watch) {
            self.release(&removed);
        }
    }

    fn release(&self, path: &Path) {
        self.budget.directories.fetch_sub(1, Ordering::Relaxed);
        self.budget
            .path_bytes
            .fetch_sub(path.as_os_str().len(), Ordering::Relaxed);
    }

    /// Removes all and returns their watch descriptors.
    fn take(&mut self) -> Vec<i32> {
        let watches: Vec<i32> = self.paths.keys().copied().collect();
        for watch in &watches {
            self.remove(*watch);
        }
        watches
    }

    /// Updates the paths below a renamed directory. Returns whether they are within the budget.
    fn rename(&mut self, from: &Path, to: &Path) -> bool {
        let below = self.paths.iter().filter_map(|(watch, path)| {
            let rest = path.strip_prefix(from).ok()?;
            Some((*watch, rest.to_owned()))
        });
        let below: Vec<(i32, PathBuf)> = below.collect();
        for (watch, rest) in below {
            let renamed = if rest.as_os_str().is_empty() {
                to.to_owned()
            } else {
                to.join(rest)
            };
            self.insert(watch, renamed);
            if self.budget.path_bytes.load(Ordering::Relaxed) > self.budget.max_path_bytes {
                return false;
            }
        }
        true
    }
}

impl Drop for WatchedPaths {
    fn drop(&mut self) {
        self.take();
    }
}

/// Watch on a directory of a tree, optionally recursive.
#[derive(Debug)]
pub struct TreeWatch {
    tree: SessionTree,
    start: PathBuf,
    recursive: bool,
    inotify: OwnedFd,
    paths: WatchedPaths,
    /// Watch descriptor of `start`.
    root: i32,
    /// Entry of the last `IN_MOVED_FROM`. The matching `IN_MOVED_TO` is the next event, if the
    /// target is watched.
    pending_move: Option<PendingMove>,
    /// Entries reported from listings of new directories in this read, and in earlier ones. Their
    /// creation may also arrive as an event and must not be reported twice.
    reported: HashSet<PathBuf>,
    reported_before: HashSet<PathBuf>,
    /// Error to return after the news read so far; ends the watch.
    end: Option<Error>,
}

#[derive(Debug)]
struct PendingMove {
    cookie: u32,
    path: PathBuf,
    is_dir: bool,
}

/// inotify event.
struct RawEvent {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<CString>,
}

/// Result of one read.
#[derive(Debug)]
pub struct WatchBatch {
    pub news: Vec<DirNews>,
    /// No more events were queued.
    pub drained: bool,
}

impl TreeWatch {
    /// Watches the directory `start`; with `recursive`, all directories below it.
    pub fn open(tree: SessionTree, start: &Path, recursive: bool) -> Result<Self> {
        Self::open_within(Arc::default(), tree, start, recursive)
    }

    /// As [`open`](Self::open), within a budget that several watches share.
    pub fn open_within(
        budget: Arc<WatchBudget>,
        tree: SessionTree,
        start: &Path,
        recursive: bool,
    ) -> Result<Self> {
        let mut watch = Self {
            tree,
            start: start.to_owned(),
            recursive,
            inotify: new_instance()?,
            paths: WatchedPaths {
                paths: HashMap::new(),
                budget,
            },
            root: -1,
            pending_move: None,
            reported: HashSet::new(),
            reported_before: HashSet::new(),
            end: None,
        };
        watch.begin()?;
        Ok(watch)
    }

    /// Returns a descriptor that is readable while events are queued.
    pub fn descriptor(&self) -> Result<OwnedFd> {
        self.inotify
            .try_clone()
            .map_err(|error| Error::io("watch a directory", error))
    }

    /// Returns whether an entry was moved away and its target is not known yet.
    pub fn has_pending_move(&self) -> bool {
        self.pending_move.is_some()
    }

    /// Returns the changes since the last call, without blocking. An error ends the watch.
    pub fn read(&mut self) -> Result<WatchBatch> {
        let mut news = Vec::new();
        let (changes, drained) = if self.end.is_some() {
            (Vec::new(), true)
        } else {
            self.read_events()?
        };
        for change in changes {
            match self.apply(&change, &mut news) {
                Ok(()) => {}
                Err(error) => self.end = Some(error),
            }
            if self.end.is_some() {
                break;
            }
        }
        if drained {
            // All events queued before this read have been read.
            self.reported_before.clear();
        }
        if self.reported_before.len() + self.reported.len() > MAX_REPORTED {
            self.reported_before.clear();
        }
        self.reported_before.extend(self.reported.drain());
        match self.end.take() {
            Some(error) if news.is_empty() => Err(error),
            end => {
                // News read before the error are returned first.
                let drained = drained && end.is_none();
                self.end = end;
                Ok(WatchBatch { news, drained })
            }
        }
    }

    /// Reports the entry of a pending move as moved out of the watched part.
    pub fn resolve_pending_move(&mut self) -> Option<DirNews> {
        let PendingMove { path, is_dir, .. } = self.pending_move.take()?;
        if is_dir {
            self.unwatch(&path);
        }
        Some(changed(DirChangeKind::Left, path, is_dir))
    }

    /// Adds the watches of `start` and, if recursive, of all directories below it.
    fn begin(&mut self) -> Result<()> {
        let start = self.start.clone();
        let directory = self
            .tree
            .open_path(&start, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.root = self.add(&directory, &start)?;
        if self.recursive {
            let mut below = Pending::default();
            self.list(&directory, &start, &mut below, |_, _| {})
                .map_err(|error| self.listing_failed(&start, error))?;
            self.add_all(below, &mut None)?;
        }
        Ok(())
    }

    /// Watches directories and all below them. With `news`, reports their entries as created.
    fn add_all(&mut self, mut ahead: Pending, news: &mut Option<&mut Vec<DirNews>>) -> Result<()> {
        let mut reported = std::mem::take(&mut self.reported);
        let outcome = self.add_pending(&mut ahead, &mut reported, news);
        self.reported = reported;
        outcome
    }

    fn add_pending(
        &mut self,
        ahead: &mut Pending,
        reported: &mut HashSet<PathBuf>,
        news: &mut Option<&mut Vec<DirNews>>,
    ) -> Result<()> {
        let mut has_overflown = false;
        let max_listed_news = self.paths.budget.max_listed_news;
        while let Some(path) = ahead.pop() {
            let directory = match self
                .tree
                .open_path(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
            {
                Ok(directory) => directory,
                // Removed or replaced; its own event reports that.
                Err(error)
                    if matches!(
                        error.code(),
                        ErrorCode::FileNotFound | ErrorCode::InvalidArgument
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.add(&directory, &path)?;
            let listed = self.list(&directory, &path, ahead, |child, is_dir| {
                if let Some(news) = news {
                    if news.len() >= max_listed_news {
                        has_overflown = true;
                        return;
                    }
                    news.push(changed(DirChangeKind::Created, child.to_owned(), is_dir));
                    reported.insert(child.to_owned());
                }
            });
            match listed {
                Ok(()) | Err(ListError::Failed(Errno::NOENT)) => {}
                Err(error) => return Err(self.listing_failed(&path, error)),
            }
        }
        if has_overflown && let Some(news) = news {
            news.push(DirNews::Overflow);
        }
        Ok(())
    }

    /// Lists a directory: calls `each` for every entry, and adds its subdirectories to `below`.
    fn list(
        &self,
        directory: &OwnedFd,
        path: &Path,
        below: &mut Pending,
        mut each: impl FnMut(&Path, bool),
    ) -> Result<(), ListError> {
        let mut buffer = [const { MaybeUninit::uninit() }; 16 << 10];
        let mut listing = RawDir::new(directory, &mut buffer);
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match EntryStat::at(directory, name) {
                    Ok(found) => found.kind,
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno.into()),
                },
                kind => kind,
            };
            let child = path.join(OsStr::from_bytes(name.to_bytes()));
            let is_dir = kind == FileType::Directory;
            each(&child, is_dir);
            if is_dir {
                below.push(child);
                if below.paths.len() > self.paths.budget.max_directories
                    || !self.paths.has_room(below.bytes)
                {
                    return Err(ListError::TooMany);
                }
            }
        }
        Ok(())
    }

    fn listing_failed(&self, path: &Path, error: ListError) -> Error {
        match error {
            ListError::Failed(errno) => failure(path, errno),
            ListError::TooMany => self.too_many(),
        }
    }

    /// Returns the error for a watch beyond the budget.
    fn too_many(&self) -> Error {
        Error::invalid(
            "path",
            format!(
                "`{}` has more directories below it than watches may have: {}, with {} MiB of paths, for all watches of a session",
                self.start.display(),
                self.paths.budget.max_directories,
                MAX_PATH_BYTES >> 20
            ),
        )
        .with_hint("watch a smaller part, or without `recursive`, or end other watches")
    }

    fn add(&mut self, directory: &OwnedFd, path: &Path) -> Result<i32> {
        if !self.paths.has_room(path.as_os_str().len()) {
            return Err(self.too_many());
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        // The magic link refers to the open directory, even if its path was replaced.
        let here = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let watch =
            inotify::add_watch(&self.inotify, here, flags).map_err(|errno| match errno {
                Errno::NOSPC => Error::new(
                    ErrorCode::Unavailable,
                    "limit of inotify watches for this user is reached",
                )
                .with_hint(
                    "watch fewer directories, or raise the sysctl `fs.inotify.max_user_watches` on the host",
                ),
                errno => failure(path, errno),
            })?;
        self.paths.insert(watch, path.to_owned());
        Ok(watch)
    }

    /// Reads queued events, and returns whether the queue is empty.
    fn read_events(&self) -> Result<(Vec<RawEvent>, bool)> {
        let mut buffer = [const { MaybeUninit::uninit() }; 16 << 10];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => changes.push(RawEvent {
                    watch: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(ToOwned::to_owned),
                }),
                Err(Errno::AGAIN) => return Ok((changes, true)),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(Error::io("read what changed in a directory", errno.into()));
                }
            }
            if changes.len() >= BATCH && reader.is_buffer_empty() {
                return Ok((changes, false));
            }
        }
    }

    fn apply(&mut self, change: &RawEvent, news: &mut Vec<DirNews>) -> Result<()> {
        let RawEvent {
            watch,
            flags,
            cookie,
            name,
        } = change;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.restart(news);
        }
        let arrives = flags.contains(ReadFlags::MOVED_TO);
        if !(arrives
            && self
                .pending_move
                .as_ref()
                .is_some_and(|pending_move| pending_move.cookie == *cookie))
        {
            news.extend(self.resolve_pending_move());
        }
        if *watch == self.root
            && flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT)
        {
            let gone = format!(
                "`{}` was removed or moved while it was watched",
                self.start.display()
            );
            return Err(Error::new(ErrorCode::FileNotFound, gone)
                .with_field("path")
                .with_hint("watch it again where it is now"));
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.paths.remove(*watch);
            return Ok(());
        }
        let Some(directory) = self.paths.paths.get(watch) else {
            return Ok(());
        };
        let is_dir = flags.contains(ReadFlags::ISDIR);
        let Some(name) = name else {
            // For other directories, the parent reports the change.
            if *watch == self.root && flags.contains(ReadFlags::ATTRIB) {
                news.push(changed(DirChangeKind::Attributes, directory.clone(), true));
            }
            return Ok(());
        };
        let path = directory.join(OsStr::from_bytes(name.to_bytes()));
        if flags.contains(ReadFlags::MOVED_FROM) {
            self.pending_move = Some(PendingMove {
                cookie: *cookie,
                path,
                is_dir,
            });
        } else if arrives && let Some(pending_move) = self.pending_move.take() {
            if is_dir && !self.paths.rename(&pending_move.path, &path) {
                return Err(self.too_many());
            }
            news.push(changed(
                DirChangeKind::Renamed {
                    from: pending_move.path,
                },
                path,
                is_dir,
            ));
        } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            if self.was_reported(&path) {
                return Ok(());
            }
            news.push(changed(DirChangeKind::Created, path.clone(), is_dir));
            if is_dir && self.recursive {
                let mut new = Pending::default();
                new.push(path);
                self.add_all(new, &mut Some(news))?;
            }
        } else if flags.contains(ReadFlags::DELETE) {
            self.was_reported(&path);
            news.push(changed(DirChangeKind::Removed, path, is_dir));
        } else {
            let written = flags.contains(ReadFlags::MODIFY);
            let kind = if written {
                DirChangeKind::Written
            } else {
                DirChangeKind::Attributes
            };
            let change = changed(kind, path, is_dir);
            if news.last() != Some(&change) {
                news.push(change);
            }
        }
        Ok(())
    }

    /// Renews all watches after an overflow of the queue: events of new directories were lost.
    fn restart(&mut self, news: &mut Vec<DirNews>) -> Result<()> {
        // The same inotify instance, because callers poll its descriptor. Events still queued have
        // stale watch descriptors and are ignored.
        for watch in self.paths.take() {
            // Fails for directories that are gone.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
        self.pending_move = None;
        self.reported.clear();
        self.reported_before.clear();
        self.begin()?;
        news.push(DirNews::Overflow);
        Ok(())
    }

    /// Returns whether an entry was already reported from a listing, and clears the mark.
    fn was_reported(&mut self, path: &Path) -> bool {
        self.reported.remove(path) || self.reported_before.remove(path)
    }

    /// Removes the watches of a directory that was moved out, and of all below it.
    fn unwatch(&mut self, gone: &Path) {
        let below: Vec<i32> = self
            .paths
            .paths
            .iter()
            .filter(|(_, path)| path.starts_with(gone))
            .map(|(watch, _)| *watch)
            .collect();
        for watch in below {
            self.paths.remove(watch);
            // Fails for directories that are gone.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }
}

fn new_instance() -> Result<OwnedFd> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| match errno {
        Errno::MFILE => Error::new(
            ErrorCode::Unavailable,
            "limit of inotify instances for this user is reached",
        )
        .with_hint(
            "end some watches, or raise the sysctl `fs.inotify.max_user_instances` on the host",
        ),
        errno => Error::io("watch a directory", errno.into()),
    })
}

fn changed(kind: DirChangeKind, path: PathBuf, is_dir: bool) -> DirNews {
    DirNews::Changed(DirChange { kind, path, is_dir })
}

/// Directories that are not watched yet.
#[derive(Default)]
struct Pending {
    paths: Vec<PathBuf>,
    /// Length of the paths.
    bytes: usize,
}

impl Pending {
    fn push(&mut self, path: PathBuf) {
        self.bytes += path.as_os_str().len();
        self.paths.push(path);
    }

    fn pop(&mut self) -> Option<PathBuf> {
        let path = self.paths.pop()?;
        self.bytes -= path.as_os_str().len();
        Some(path)
    }
}

/// Reason why a directory could not be listed.
#[derive(Clone, Copy)]
enum ListError {
    Failed(Errno),
    /// It has more directories than the budget admits.
    TooMany,
}

impl From<Errno> for ListError {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
