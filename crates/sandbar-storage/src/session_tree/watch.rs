//! Watching what changes in a part of the tree.
//!
//! Directories are watched through descriptors that were opened inside the tree, so no link leads a watch out of it. A
//! directory is watched before its names are read: what is made in between is found by one or the other.

use std::{
    collections::{HashMap, HashSet},
    ffi::{CString, OsStr},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        FileType, OFlags,
        inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    },
    io::Errno,
};
use sandbar_core::{DirChange, DirChangeKind, DirNews, Error, ErrorCode, Result};

use super::tree::{SessionTree, failure};
use crate::descent::{EntryStat, names};

/// Directories one watch may have below it.
const MOST_DIRECTORIES: usize = 16_384;

/// Changes that are read at once, about.
const BATCH: usize = 512;

/// A part of a tree that is watched.
#[derive(Debug)]
pub struct TreeWatch {
    tree: SessionTree,
    start: PathBuf,
    recursive: bool,
    inotify: OwnedFd,
    /// Where the directories are that are watched.
    paths: HashMap<i32, PathBuf>,
    /// The watch on `start`.
    root: i32,
    /// Something left its place; where it went comes next, when it stayed in the part that is watched.
    leaving: Option<Leaving>,
    /// What was found in new directories and may come as a change as well, until all changes so far are read: in those of
    /// this reading, and of those before it.
    found: HashSet<PathBuf>,
    found_before: HashSet<PathBuf>,
    /// Nothing can be told after what was told so far.
    end: Option<Error>,
}

#[derive(Debug)]
struct Leaving {
    cookie: u32,
    path: PathBuf,
    is_dir: bool,
}

/// A change as the kernel tells it.
struct Raw {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<CString>,
}

/// What was read.
#[derive(Debug)]
pub struct WatchBatch {
    pub news: Vec<DirNews>,
    /// There was nothing more to read.
    pub drained: bool,
}

impl TreeWatch {
    /// Watches the directory `start`, and with `recursive` all below it.
    pub fn open(tree: SessionTree, start: &Path, recursive: bool) -> Result<Self> {
        let mut watch = Self {
            tree,
            start: start.to_owned(),
            recursive,
            inotify: new_instance()?,
            paths: HashMap::new(),
            root: -1,
            leaving: None,
            found: HashSet::new(),
            found_before: HashSet::new(),
            end: None,
        };
        watch.begin()?;
        Ok(watch)
    }

    /// A descriptor that is readable when there is something to read.
    pub fn descriptor(&self) -> Result<OwnedFd> {
        self.inotify.try_clone().map_err(|error| Error::io("watch a directory", error))
    }

    /// Whether something has left its place, and it is not known yet where it went.
    pub fn is_undecided(&self) -> bool {
        self.leaving.is_some()
    }

    /// What changed since the last time. It does not wait. Fails when nothing can be told any more.
    pub fn read(&mut self) -> Result<WatchBatch> {
        let mut news = Vec::new();
        let (changes, drained) = if self.end.is_some() { (Vec::new(), true) } else { self.pull()? };
        for change in changes {
            match self.digest(&change, &mut news) {
                Ok(()) => {}
                Err(error) => self.end = Some(error),
            }
            if self.end.is_some() {
                break;
            }
        }
        if drained {
            // Everything that came before this reading was in it.
            self.found_before.clear();
        }
        self.found_before.extend(self.found.drain());
        match self.end.take() {
            Some(error) if news.is_empty() => Err(error),
            end => {
                // What was read before the end is told before it.
                let drained = drained && end.is_none();
                self.end = end;
                Ok(WatchBatch { news, drained })
            }
        }
    }

    /// What has left its place went out of the part that is watched.
    pub fn decide(&mut self) -> Option<DirNews> {
        let Leaving { path, is_dir, .. } = self.leaving.take()?;
        if is_dir {
            self.forget(&path);
        }
        Some(changed(DirChangeKind::Left, path, is_dir))
    }

    /// Starts to watch, from nothing.
    fn begin(&mut self) -> Result<()> {
        let start = self.start.clone();
        let directory = self.tree.reach(&start, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.root = self.add(&directory, &start)?;
        if self.recursive {
            let below = subdirectories(&directory, &start, |_, _| {}).map_err(|errno| failure(&start, errno))?;
            self.add_all(below, &mut None)?;
        }
        Ok(())
    }

    /// Watches directories and all below them. What is in them is told, when somebody is to be told.
    fn add_all(&mut self, mut ahead: Vec<PathBuf>, news: &mut Option<&mut Vec<DirNews>>) -> Result<()> {
        while let Some(path) = ahead.pop() {
            let directory = match self.tree.reach(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW) {
                Ok(directory) => directory,
                // It is gone, or something else by now, and that is told by itself.
                Err(error) if matches!(error.code(), ErrorCode::FileNotFound | ErrorCode::InvalidArgument) => continue,
                Err(error) => return Err(error),
            };
            self.add(&directory, &path)?;
            let found = &mut self.found;
            let below = subdirectories(&directory, &path, |child, is_dir| {
                if let Some(news) = news {
                    news.push(changed(DirChangeKind::Created, child.to_owned(), is_dir));
                    found.insert(child.to_owned());
                }
            });
            match below {
                Ok(below) => ahead.extend(below),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failure(&path, errno)),
            }
        }
        Ok(())
    }

    fn add(&mut self, directory: &OwnedFd, path: &Path) -> Result<i32> {
        if self.paths.len() >= MOST_DIRECTORIES {
            return Err(Error::invalid(
                "path",
                format!("there are more than {MOST_DIRECTORIES} directories below `{}`", self.start.display()),
            )
            .with_hint("watch a smaller part of it, or not `recursive`"));
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
        // The magic link leads to what the descriptor is, whatever has that name by now.
        let here = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let watch = inotify::add_watch(&self.inotify, here, flags).map_err(|errno| match errno {
            Errno::NOSPC => {
                Error::new(ErrorCode::Unavailable, "the kernel watches as many directories as it may for this user")
                    .with_hint("watch less, or raise the sysctl `fs.inotify.max_user_watches` on the host")
            }
            errno => failure(path, errno),
        })?;
        self.paths.insert(watch, path.to_owned());
        Ok(watch)
    }

    /// Reads what the kernel has, and says whether that was all.
    fn pull(&self) -> Result<(Vec<Raw>, bool)> {
        let mut buffer = [const { MaybeUninit::uninit() }; 16 << 10];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => changes.push(Raw {
                    watch: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(ToOwned::to_owned),
                }),
                Err(Errno::AGAIN) => return Ok((changes, true)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("read what changed in a directory", errno.into())),
            }
            if changes.len() >= BATCH && reader.is_buffer_empty() {
                return Ok((changes, false));
            }
        }
    }

    fn digest(&mut self, change: &Raw, news: &mut Vec<DirNews>) -> Result<()> {
        let Raw { watch, flags, cookie, name } = change;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.start_anew(news);
        }
        let arrives = flags.contains(ReadFlags::MOVED_TO);
        if !(arrives && self.leaving.as_ref().is_some_and(|leaving| leaving.cookie == *cookie)) {
            news.extend(self.decide());
        }
        if *watch == self.root && flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
            let gone = format!("`{}` was removed or moved while it was watched", self.start.display());
            return Err(Error::new(ErrorCode::FileNotFound, gone)
                .with_field("path")
                .with_hint("watch it again where it is now"));
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.paths.remove(watch);
            return Ok(());
        }
        let Some(directory) = self.paths.get(watch) else { return Ok(()) };
        let is_dir = flags.contains(ReadFlags::ISDIR);
        let Some(name) = name else {
            // Of a directory below, the one above it tells.
            if *watch == self.root && flags.contains(ReadFlags::ATTRIB) {
                news.push(changed(DirChangeKind::Attributes, directory.clone(), true));
            }
            return Ok(());
        };
        let path = directory.join(OsStr::from_bytes(name.to_bytes()));
        if flags.contains(ReadFlags::MOVED_FROM) {
            self.leaving = Some(Leaving { cookie: *cookie, path, is_dir });
        } else if arrives && let Some(leaving) = self.leaving.take() {
            if is_dir {
                self.move_paths(&leaving.path, &path);
            }
            news.push(changed(DirChangeKind::Renamed { from: leaving.path }, path, is_dir));
        } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            if self.was_found(&path) {
                return Ok(());
            }
            news.push(changed(DirChangeKind::Created, path.clone(), is_dir));
            if is_dir && self.recursive {
                self.add_all(vec![path], &mut Some(news))?;
            }
        } else if flags.contains(ReadFlags::DELETE) {
            self.was_found(&path);
            news.push(changed(DirChangeKind::Removed, path, is_dir));
        } else {
            let written = flags.contains(ReadFlags::MODIFY);
            let kind = if written { DirChangeKind::Written } else { DirChangeKind::Attributes };
            let change = changed(kind, path, is_dir);
            if news.last() != Some(&change) {
                news.push(change);
            }
        }
        Ok(())
    }

    /// Watches everything once more: changes were lost, and new directories with them.
    fn start_anew(&mut self, news: &mut Vec<DirNews>) -> Result<()> {
        // The same instance, so that whoever waits for it goes on: what it still tells is as good as new.
        for watch in std::mem::take(&mut self.paths).into_keys() {
            // It fails for directories that are gone.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
        self.leaving = None;
        self.found.clear();
        self.found_before.clear();
        self.begin()?;
        news.push(DirNews::Overflow);
        Ok(())
    }

    /// Whether something was told already when its directory was looked through.
    fn was_found(&mut self, path: &Path) -> bool {
        self.found.remove(path) || self.found_before.remove(path)
    }

    /// A directory has another name, and with it all below it.
    fn move_paths(&mut self, from: &Path, to: &Path) {
        for path in self.paths.values_mut() {
            if let Ok(below) = path.strip_prefix(from) {
                *path = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            }
        }
    }

    /// A directory is elsewhere, and with it all below it.
    fn forget(&mut self, gone: &Path) {
        let below: Vec<i32> =
            self.paths.iter().filter(|(_, path)| path.starts_with(gone)).map(|(watch, _)| *watch).collect();
        for watch in below {
            self.paths.remove(&watch);
            // It fails for directories that are gone.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }
}

fn new_instance() -> Result<OwnedFd> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| match errno {
        Errno::MFILE => Error::new(ErrorCode::Unavailable, "the kernel has no more watches for this user")
            .with_hint("end some watches, or raise the sysctl `fs.inotify.max_user_instances` on the host"),
        errno => Error::io("watch a directory", errno.into()),
    })
}

fn changed(kind: DirChangeKind, path: PathBuf, is_dir: bool) -> DirNews {
    DirNews::Changed(DirChange { kind, path, is_dir })
}

/// The directories in a directory. Whatever is in it is shown to `each`.
fn subdirectories(
    directory: &OwnedFd,
    path: &Path,
    mut each: impl FnMut(&Path, bool),
) -> rustix::io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    for (name, kind) in names(directory)? {
        let kind = match kind {
            FileType::Unknown => match EntryStat::at(directory, &name) {
                Ok(found) => found.kind,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            },
            kind => kind,
        };
        let child = path.join(OsStr::from_bytes(name.to_bytes()));
        let is_dir = kind == FileType::Directory;
        each(&child, is_dir);
        if is_dir {
            below.push(child);
        }
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    struct Scene {
        scratch: tempfile::TempDir,
        watch: TreeWatch,
    }

    impl Scene {
        fn new(recursive: bool) -> Self {
            let scratch = tempfile::tempdir().unwrap();
            fs::create_dir_all(scratch.path().join("root/work/old/deep")).unwrap();
            fs::create_dir_all(scratch.path().join("root/elsewhere")).unwrap();
            fs::create_dir_all(scratch.path().join("outside")).unwrap();
            symlink("../../../outside", scratch.path().join("root/work/link")).unwrap();
            let tree = SessionTree::open(&scratch.path().join("root"), None).unwrap();
            let watch = TreeWatch::open(tree, Path::new("/work"), recursive).unwrap();
            Self { scratch, watch }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.scratch.path().join("root").join(path)
        }

        /// Everything that is told now, in words.
        fn told(&mut self) -> Vec<String> {
            let mut all = Vec::new();
            loop {
                let batch = self.watch.read().unwrap();
                all.extend(batch.news);
                if batch.drained {
                    break;
                }
            }
            all.extend(self.watch.decide());
            all.iter().map(words).collect()
        }
    }

    fn words(news: &DirNews) -> String {
        let DirNews::Changed(DirChange { kind, path, is_dir }) = news else { return "overflow".to_owned() };
        let slash = if *is_dir { "/" } else { "" };
        let what = match kind {
            DirChangeKind::Created => "created",
            DirChangeKind::Written => "written",
            DirChangeKind::Removed => "removed",
            DirChangeKind::Left => "left",
            DirChangeKind::Attributes => "attributes",
            DirChangeKind::Renamed { from } => {
                return format!("{}{slash} -> {}{slash}", from.display(), path.display());
            }
        };
        format!("{what} {}{slash}", path.display())
    }

    #[test]
    fn what_happens_to_files_is_told_in_order() {
        let mut scene = Scene::new(true);
        fs::write(scene.path("work/old/deep/a"), "x").unwrap();
        fs::rename(scene.path("work/old/deep/a"), scene.path("work/b")).unwrap();
        fs::rename(scene.path("work/b"), scene.path("elsewhere/b")).unwrap();
        fs::rename(scene.path("elsewhere/b"), scene.path("work/c")).unwrap();
        fs::set_permissions(scene.path("work/c"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        fs::remove_file(scene.path("work/c")).unwrap();
        assert_eq!(
            scene.told(),
            [
                "created /work/old/deep/a",
                "written /work/old/deep/a",
                "/work/old/deep/a -> /work/b",
                "left /work/b",
                "created /work/c",
                "attributes /work/c",
                "removed /work/c",
            ]
        );
        assert_eq!(scene.told(), Vec::<String>::new());
    }

    #[test]
    fn what_is_made_in_new_directories_is_told_once_and_they_are_watched() {
        let mut scene = Scene::new(true);
        fs::create_dir_all(scene.path("work/x/y/z")).unwrap();
        fs::write(scene.path("work/x/y/z/file"), "").unwrap();
        assert_eq!(
            scene.told(),
            ["created /work/x/", "created /work/x/y/", "created /work/x/y/z/", "created /work/x/y/z/file"]
        );
        fs::write(scene.path("work/x/y/later"), "").unwrap();
        fs::rename(scene.path("work/x"), scene.path("work/renamed")).unwrap();
        fs::write(scene.path("work/renamed/y/z/after"), "").unwrap();
        assert_eq!(
            scene.told(),
            ["created /work/x/y/later", "/work/x/ -> /work/renamed/", "created /work/renamed/y/z/after"]
        );
        fs::rename(scene.path("work/renamed"), scene.path("elsewhere/x")).unwrap();
        assert_eq!(scene.told(), ["left /work/renamed/"]);
        // It is no longer in the part that is watched.
        fs::write(scene.path("elsewhere/x/y/more"), "").unwrap();
        assert_eq!(scene.told(), Vec::<String>::new());
    }

    #[test]
    fn nothing_is_missed_of_many_directories_made_at_once() {
        let mut scene = Scene::new(true);
        let root = scene.path("work");
        let maker = std::thread::spawn(move || {
            for number in 0..300 {
                let directory = root.join(format!("d{number}/e"));
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("f"), "").unwrap();
            }
        });
        let mut told = Vec::new();
        while !maker.is_finished() {
            told.extend(scene.told());
        }
        maker.join().unwrap();
        told.extend(scene.told());
        for number in 0..300 {
            let file = format!("created /work/d{number}/e/f");
            assert_eq!(told.iter().filter(|news| **news == file).count(), 1, "{file}");
        }
    }

    #[test]
    fn links_lead_no_watch_out_and_one_level_is_one_level() {
        let mut scene = Scene::new(true);
        fs::write(scene.scratch.path().join("outside/secret"), "").unwrap();
        assert_eq!(scene.told(), Vec::<String>::new());
        let tree = SessionTree::open(&scene.path(""), None).unwrap();
        let through = TreeWatch::open(tree, Path::new("/work/link"), true);
        assert_eq!(through.unwrap_err().code(), ErrorCode::FileNotFound);
        let mut flat = Scene::new(false);
        fs::write(flat.path("work/old/file"), "").unwrap();
        fs::create_dir_all(flat.path("work/new/below")).unwrap();
        assert_eq!(flat.told(), ["created /work/new/"]);
    }

    #[test]
    fn the_end_of_the_directory_is_the_end_after_what_came_before() {
        let mut scene = Scene::new(true);
        fs::remove_file(scene.path("work/link")).unwrap();
        fs::rename(scene.path("work"), scene.path("moved")).unwrap();
        let batch = scene.watch.read().unwrap();
        assert_eq!(batch.news.iter().map(words).collect::<Vec<_>>(), ["removed /work/link"]);
        assert!(!batch.drained);
        assert_eq!(scene.watch.read().unwrap_err().code(), ErrorCode::FileNotFound);
    }

    #[test]
    fn too_much_at_once_is_an_overflow_and_the_watch_goes_on() {
        let mut scene = Scene::new(true);
        let limit: usize =
            fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
        for number in 0..=limit / 2 {
            let file = scene.path("work").join(format!("f{number}"));
            fs::write(&file, "").unwrap();
            fs::remove_file(&file).unwrap();
        }
        fs::create_dir(scene.path("work/unseen")).unwrap();
        assert!(scene.told().contains(&"overflow".to_owned()));
        fs::write(scene.path("work/unseen/file"), "").unwrap();
        assert_eq!(scene.told(), ["created /work/unseen/file"]);
    }
}
