//! The code of a worker process: one request, and its answer in bounded parts.

use std::{
    io::{self, Write},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use sandbar_core::{Change, Error, OwnerMap, Result, ToolParams, ToolProgress};
use sandbar_runtime::Job;
use sandbar_storage::diff;
use sandbar_tools::PreparedCall;
use sandbar_tree::{SessionTree, archive::ArchiveWriter};

use super::messages::{
    Envelope, ListContents, Part, Request, WireChange, WireDetails, WireError, WireResponse,
    WireStat, decode, encode, path_of,
};

/// Entries of one part of an answer.
const PART_ENTRIES: usize = 1000;

/// Bytes of one part of a tar stream.
const PIECE_BYTES: usize = 256 << 10;

/// Runs one job.
pub(super) fn run(mut job: Job) {
    let outcome = answer(&mut job);
    let end = outcome.as_ref().map_err(WireError::from);
    // The host has given up the job when this fails, or reports an incomplete answer.
    if let Ok(end) = encode(&end) {
        let _ = job.end(&end);
    }
}

fn answer(job: &mut Job) -> Result<Option<WireResponse>> {
    let received = job
        .receive()
        .map_err(|error| Error::io("receive a request", error))?;
    let Envelope { owners, request } =
        decode(&received.ok_or_else(|| Error::internal("request is missing"))?)?;
    match request {
        Request::Diff { from, to } => {
            let entries = diff::between(&from.into(), &to.into())?;
            let changes = entries.into_iter().map(|entry| entry.change);
            let changes = changes.filter(|change: &Change| !change.aspects.only_time());
            send_all(job, changes.map(WireChange::from), Part::Changes)?;
            Ok(None)
        }
        Request::Tool {
            tool,
            params,
            time_limit,
        } => {
            let tree = tree(job, owners)?;
            let params: ToolParams = serde_json::from_str(&params)
                .map_err(|error| Error::internal("malformed parameters").with_source(error))?;
            let call = PreparedCall::new(&tool, params)?;
            let sender = job
                .sender()
                .map_err(|error| Error::io("report progress", error))?;
            let tell = move |progress: ToolProgress| {
                if let Ok(part) = encode(&Part::Progress(progress.content)) {
                    // The host has given up the job, and kills it.
                    let _ = sender.send(&part);
                }
            };
            let response = call.run_walk(tree, time_limit, Box::new(tell))?;
            Ok(Some(response.into()))
        }
        Request::List {
            path,
            depth,
            contents,
        } => {
            let (tree, path) = (tree(job, owners)?, path_of(path));
            match contents {
                ListContents::Stat => {
                    let entries = tree.list_all(&path, depth)?;
                    send_all(job, entries.into_iter().map(WireStat::from), Part::Stats)?;
                }
                ListContents::Details => {
                    let entries = tree.list_details(&path, depth)?;
                    send_all(
                        job,
                        entries.into_iter().map(WireDetails::from),
                        Part::Details,
                    )?;
                }
            }
            Ok(None)
        }
        Request::Export { path } => {
            let (tree, path) = (tree(job, owners)?, path_of(path));
            export(job, &tree, &path)?;
            Ok(None)
        }
    }
}

/// Opens the tree of the session.
fn tree(job: &mut Job, owners: Option<u32>) -> Result<SessionTree> {
    let missing = || Error::internal("a descriptor of the job is missing");
    let root = job.directories.pop().ok_or_else(missing)?;
    let owners = match owners {
        Some(first) => {
            let namespace = job.descriptors.pop().ok_or_else(missing)?;
            Some(Arc::new(OwnerMap::new(first, namespace)))
        }
        None => None,
    };
    Ok(SessionTree::of_root(root, owners))
}

/// Sends entries in parts.
fn send_all<T>(
    job: &Job,
    entries: impl Iterator<Item = T>,
    part: impl Fn(Vec<T>) -> Part,
) -> Result<()> {
    let mut entries = entries.peekable();
    while entries.peek().is_some() {
        let some = entries.by_ref().take(PART_ENTRIES).collect();
        job.send(&encode(&part(some))?).map_err(given_up)?;
    }
    Ok(())
}

fn given_up(error: io::Error) -> Error {
    Error::io("send an answer", error)
}

fn export(job: &Job, tree: &SessionTree, path: &Path) -> Result<()> {
    let parent = tree.directory(path.parent().unwrap_or(Path::new("/")))?;
    let name = path
        .file_name()
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let archived_as = path.file_name().map(PathBuf::from).unwrap_or_default();
    let pieces = PieceWriter {
        job,
        piece: Vec::with_capacity(PIECE_BYTES),
    };
    let mut writer = ArchiveWriter::new(pieces).with_owners(tree.owners().cloned());
    writer.append_tree(parent.as_fd(), &name, &archived_as)?;
    let (mut pieces, _) = writer.finish()?;
    pieces.flush().map_err(given_up)
}

/// Sends what is written in pieces.
struct PieceWriter<'a> {
    job: &'a Job,
    piece: Vec<u8>,
}

impl Write for PieceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            self.job.send(&self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }
}
