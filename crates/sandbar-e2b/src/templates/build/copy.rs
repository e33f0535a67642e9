//! `COPY` steps: an uploaded archive becomes files of the sandbox.
//!
//! As in E2B, the first entry decides: a file is copied to the exact target, the contents of a
//! directory into the target. The archive is rewritten on the way, with the final names, owners and
//! modes; [`merge`](super::merge) decides where directories go.

use std::{
    ffi::OsStr,
    io::{self, Write},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use jiff::Timestamp;
use rustix::fs::Timespec;
use sandbar_core::{Error, ErrorCode, Result, SessionId};
use sandbar_host::Host;
use sandbar_tree::archive::{ArchiveEntry, ArchiveWriter, EntryKind};
use tokio::{sync::mpsc, task::spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::{
    archive::{UploadedArchive, directories, plain},
    merge::{Directories, Layout},
};

/// Chunks buffered between rewriting and importing.
const MAX_BUFFERED_CHUNKS: usize = 16;
const CHUNK_BYTES: usize = 128 * 1024;

/// Owner and mode of the copied files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) mode: Option<u32>,
}

impl Owned {
    fn entry(self, path: &Path, kind: EntryKind, own_mode: u32, modified: i64) -> ArchiveEntry {
        ArchiveEntry {
            path: path.as_os_str().as_bytes().to_vec(),
            mode: self
                .mode
                .filter(|_| !matches!(kind, EntryKind::Symlink { .. }))
                .unwrap_or(own_mode),
            kind,
            uid: self.user,
            gid: self.group,
            modified: Timespec {
                tv_sec: modified,
                tv_nsec: 0,
            },
            size: 0,
            segments: None,
            xattrs: Vec::new(),
        }
    }
}

/// Source and target of a copy.
#[derive(Debug, PartialEq, Eq)]
struct CopyPlan {
    /// Prefix that is removed from the names in the archive.
    below: PathBuf,
    /// Target directory.
    directory: PathBuf,
    /// Target name, if a single file is copied.
    name: Option<PathBuf>,
}

/// Maps names in the archive to names in the sandbox.
enum Names {
    /// A single file.
    File(PathBuf),
    /// The contents of a directory.
    Tree(Layout),
}

impl Names {
    /// Returns the target name of a path relative to the copied entry.
    fn of(&self, rest: &Path) -> Option<PathBuf> {
        match self {
            Self::File(name) => rest.as_os_str().is_empty().then(|| name.clone()),
            Self::Tree(layout) => layout.name(rest),
        }
    }
}

/// Copies the archive to `target`, which is absolute. `is_directory` tells whether it is an
/// existing directory.
pub(super) async fn copy(
    host: &Host,
    session: &SessionId,
    archive: &Path,
    source: &str,
    target: &str,
    is_directory: bool,
    owned: Owned,
) -> Result<()> {
    let (archive, source, target) = (archive.to_owned(), source.to_owned(), target.to_owned());
    let path = archive.clone();
    // Dropped with this future, when the build is cancelled or the host stops.
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let stopped = stop.clone();
    let (plan, directories) = blocking(move || {
        let check = || go_on(&stopped);
        let plan = plan(&path, &source, &target, is_directory, &check)?;
        let directories = if plan.name.is_none() {
            directories(&path, &plan.below, &check)?
        } else {
            Directories::new()
        };
        Ok((plan, directories))
    })
    .await?;
    let (root, names) = if let Some(name) = plan.name {
        (plan.directory, Names::File(name))
    } else {
        let layout = Layout::plan(host, session, &plan.directory, directories).await?;
        (PathBuf::from("/"), Names::Tree(layout))
    };
    let mut writer = host.import_tree(session, &root).await?;
    let (sender, mut chunks) = mpsc::channel(MAX_BUFFERED_CHUNKS);
    let rewriting = blocking(move || {
        rewrite(&archive, &plan.below, &names, owned, sender, &|| {
            go_on(&stop)
        })
    });
    let sending = async {
        while let Some(chunk) = chunks.recv().await {
            writer.write(chunk).await?;
        }
        writer.finish().await
    };
    let (rewritten, sent) = tokio::join!(rewriting, sending);
    // If both fail, the importer has the cause: the rewriter only sees a closed channel.
    sent.map(drop).and(rewritten)
}

fn go_on(stop: &CancellationToken) -> Result<()> {
    if stop.is_cancelled() {
        return Err(Error::new(ErrorCode::Unavailable, "copy was cancelled"));
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::internal("copy was interrupted").with_source(error)))
}

/// Returns the path before the first wildcard of a pattern; `None` means everything.
fn named(source: &str) -> Option<PathBuf> {
    let parts = source
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    let named: PathBuf = parts
        .take_while(|part| !part.contains(['*', '?', '[', '{', '\\']))
        .collect();
    (!named.as_os_str().is_empty()).then_some(named)
}

fn plan(
    archive: &Path,
    source: &str,
    target: &str,
    is_directory: bool,
    check: &dyn Fn() -> Result<()>,
) -> Result<CopyPlan> {
    let target_path = PathBuf::from(target);
    let Some(named) = named(source) else {
        return Ok(CopyPlan {
            below: PathBuf::new(),
            directory: target_path,
            name: None,
        });
    };
    let folder = named.parent().unwrap_or(Path::new(""));
    let mut first: Option<(PathBuf, bool)> = None;
    let mut archive = UploadedArchive::open(archive, check)?;
    while let Some((entry, path)) = archive.next()? {
        let Ok(rest) = path.strip_prefix(folder) else {
            continue;
        };
        let Some(Component::Normal(name)) = rest.components().next() else {
            continue;
        };
        let is_inside = rest.components().count() > 1;
        let is_below = is_inside || entry.kind == EntryKind::Directory;
        let name = PathBuf::from(name);
        match &mut first {
            None => first = Some((name, is_below)),
            // The first by name decides, in the order of `ls`.
            Some((known, directory)) if name == *known => *directory |= is_below,
            Some((known, directory)) if name < *known => (*known, *directory) = (name, is_below),
            Some(_) => {}
        }
    }
    let (name, first_is_directory) = first.ok_or_else(|| {
        Error::invalid(
            "args",
            format!("uploaded archive contains no files of `{source}`"),
        )
    })?;
    if first_is_directory {
        return Ok(CopyPlan {
            below: folder.join(name),
            directory: target_path,
            name: None,
        });
    }
    let below = folder.join(&name);
    if is_directory || target.ends_with('/') {
        return Ok(CopyPlan {
            below,
            directory: target_path,
            name: Some(name),
        });
    }
    let file = target_path.file_name().map(PathBuf::from);
    let file = file.ok_or_else(|| {
        Error::invalid("args", format!("`{target}` cannot be the path of a file"))
    })?;
    let directory = target_path.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(CopyPlan {
        below,
        directory,
        name: Some(file),
    })
}

/// Rewrites the archive into chunks of a new one.
fn rewrite(
    archive: &Path,
    below: &Path,
    names: &Names,
    owned: Owned,
    sender: mpsc::Sender<Bytes>,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut archive = UploadedArchive::open(archive, check)?;
    let mut writer = ArchiveWriter::new(ChunkWriter {
        sender,
        chunk: Vec::with_capacity(CHUNK_BYTES),
    });
    if let Names::Tree(layout) = names {
        let now = Timestamp::now().as_second();
        for (name, mode) in layout.new_directories() {
            let entry = owned.entry(name, EntryKind::Directory, mode.unwrap_or(0o755), now);
            writer.append(&entry, &mut io::empty())?;
        }
    }
    while let Some((entry, path)) = archive.next()? {
        let Ok(rest) = path.strip_prefix(below) else {
            continue;
        };
        let Some(name) = names.of(rest) else {
            continue;
        };
        let Some(kind) = copied_kind(&entry, &name, (below, names))? else {
            continue;
        };
        let mut copied = owned.entry(&name, kind, entry.mode, entry.modified.tv_sec);
        (copied.size, copied.segments) = (entry.size, entry.segments);
        if copied.kind == EntryKind::File {
            writer.append(&copied, &mut archive.data())?;
        } else {
            writer.append(&copied, &mut io::empty())?;
        }
    }
    let (mut chunks, _) = writer.finish()?;
    chunks.flush().map_err(unsent)
}

/// Returns the kind of an entry in the new archive; `None` for one that is not copied. Directories
/// are created before. Pipes, devices and sockets are not copied.
fn copied_kind(
    entry: &ArchiveEntry,
    name: &Path,
    (below, names): (&Path, &Names),
) -> Result<Option<EntryKind>> {
    Ok(match &entry.kind {
        EntryKind::File | EntryKind::Symlink { .. } => Some(entry.kind.clone()),
        EntryKind::HardLink { target } => {
            // A hard link refers to another entry, whose name changes as well.
            let target = plain(target)?;
            let renamed = target.strip_prefix(below).ok();
            let Some(target) = renamed.and_then(|rest| names.of(rest)) else {
                return Err(Error::invalid(
                    "args",
                    format!(
                        "`{}` is a link to a file that is not copied",
                        name.display()
                    ),
                ));
            };
            let target = OsStr::as_bytes(target.as_os_str()).to_vec();
            Some(EntryKind::HardLink { target })
        }
        _ => None,
    })
}

fn unsent(error: io::Error) -> Error {
    Error::io("write files to the sandbox", error)
}

/// Writer that sends its data in chunks.
struct ChunkWriter {
    sender: mpsc::Sender<Bytes>,
    chunk: Vec<u8>,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        if chunk.is_empty() {
            return Ok(());
        }
        self.sender
            .blocking_send(chunk.into())
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(names: &[&str]) -> tempfile::NamedTempFile {
        let owned = Owned {
            user: 0,
            group: 0,
            mode: None,
        };
        let mut writer = ArchiveWriter::new(tempfile::NamedTempFile::new().unwrap());
        for name in names {
            let kind = if name.ends_with('/') {
                EntryKind::Directory
            } else {
                EntryKind::File
            };
            let entry = owned.entry(Path::new(name), kind, 0o644, 0);
            writer.append(&entry, &mut io::empty()).unwrap();
        }
        writer.finish().unwrap().0
    }

    fn planned(
        names: &[&str],
        source: &str,
        target: &str,
        is_directory: bool,
    ) -> (String, String, Option<String>) {
        let archive = archive(names);
        let plan = plan(archive.path(), source, target, is_directory, &|| Ok(())).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        (text(plan.below), text(plan.directory), plan.name.map(text))
    }

    #[test]
    fn file_is_copied_to_the_exact_target_or_into_a_directory() {
        let to = |directory: &str, name: &str| {
            (
                "a.py".to_owned(),
                directory.to_owned(),
                Some(name.to_owned()),
            )
        };
        assert_eq!(
            planned(&["a.py"], "a.py", "/app/main.py", false),
            to("/app", "main.py")
        );
        assert_eq!(planned(&["a.py"], "a.py", "/app", true), to("/app", "a.py"));
        assert_eq!(
            planned(&["a.py"], "./a.py", "/app/", false),
            to("/app/", "a.py")
        );
        let deep = planned(&["x/y/a.py"], "x/y/a.py", "/a.py", false);
        assert_eq!(deep, ("x/y/a.py".into(), "/".into(), Some("a.py".into())));
    }

    #[test]
    fn contents_of_a_directory_go_into_the_target() {
        let expected = ("src".to_owned(), "/app".to_owned(), None);
        assert_eq!(
            planned(&["src/", "src/a", "src/b/c"], "src", "/app", false),
            expected
        );
        assert_eq!(planned(&["src/a"], "src/*.py", "/app", false), expected);
        assert_eq!(planned(&["src/a"], "src/", "/app", true), expected);
        assert_eq!(
            planned(&["a", "b"], "*", "/app", false),
            (String::new(), "/app".into(), None)
        );
        assert_eq!(planned(&["a", "b"], ".", "/app", false).2, None);
    }

    #[test]
    fn path_outside_and_archive_without_files_are_refused() {
        assert!(plain(b"../x").is_err() && plain(b"/x").is_err());
        let archive = archive(&["other"]);
        assert!(plan(archive.path(), "folder/file", "/app", false, &|| Ok(())).is_err());
    }
}
