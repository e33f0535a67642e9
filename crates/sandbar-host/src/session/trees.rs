//! Whole trees in and out of a session, as tar streams.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use bytes::{Buf as _, Bytes, BytesMut};
use rustix::fs::OFlags;
use sandbar_core::{Error, Result, SessionId, TreeSummary};
use sandbar_storage::{
    archive::{ArchiveEntry, ArchiveReader, ArchiveWriter, UnpackOptions, Unpacker, decompress},
    session_tree::absolute,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    Host,
    host::blocking,
    verb::{Call, Verb},
};

/// Bytes handed over at a time, and how many such pieces wait for a slow reader.
const PIECE: usize = 256 << 10;
const WAITING: usize = 4;

impl Host {
    /// A tar of what is at `path`, with names that begin with its last component.
    pub async fn export_tree(&self, id: &SessionId, path: &Path) -> Result<TreeReader> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let (id, path) = (id.clone(), absolute(path)?);
        // Found before anything is sent, so that a path that does not exist is an error and not a broken stream.
        let opened = {
            let (id, path) = (id.clone(), path.clone());
            let call = Call::on(&id, Verb::ExportTree).with("path", path.to_string_lossy());
            self.run(call, move |inner| {
                let session = inner.session(&id)?;
                let entry = session.gate.enter_shared()?;
                inner.present(&id)?;
                let root = session.root(inner)?;
                let tree = session.tree(inner)?;
                tree.reach(&path, OFlags::PATH | OFlags::NOFOLLOW)?;
                let parent = tree.directory(path.parent().unwrap_or(Path::new("/")))?;
                Ok((entry, parent, root.owners, session.streams.clone()))
            })
            .await?
        };
        let (entry, parent, owners, ended) = opened;
        let task = tokio::task::spawn_blocking(move || {
            let name = path.file_name().map_or_else(|| PathBuf::from("."), PathBuf::from);
            let archived_as = path.file_name().map(PathBuf::from).unwrap_or_default();
            let pieces = PieceWriter { sender: sender.clone(), piece: BytesMut::new(), ended };
            let mut writer = ArchiveWriter::new(pieces).with_owners(owners);
            let outcome = writer
                .append_tree(parent.as_fd(), &name, &archived_as)
                .and_then(|()| writer.finish())
                .and_then(|(mut pieces, _)| pieces.flush().map_err(|error| Error::io("send a tree", error)));
            // Before the error is told: who does not read it must not hold up the session.
            drop((entry, parent));
            if let Err(error) = outcome {
                // Nobody listens any more when this fails.
                let _ = sender.blocking_send(Err(error));
            }
        });
        Ok(TreeReader { pieces: receiver, _task: task })
    }

    /// Unpacks a tar below the directory `path`, which is made when missing. A stream that ends early, or a fault in
    /// it, is an error; what came before it stays.
    pub async fn import_tree(&self, id: &SessionId, path: &Path) -> Result<TreeWriter> {
        let (id, path) = (id.clone(), absolute(path)?);
        let call = Call::on(&id, Verb::ImportTree).with("path", path.to_string_lossy());
        let (entry, root, directory, ended) = self
            .run(call, move |inner| {
                let session = inner.session(&id)?;
                let entry = session.gate.enter_shared()?;
                inner.active(&id)?;
                let root = session.root(inner)?;
                let directory = session.tree(inner)?.make_directories(&path, None)?;
                Ok((entry, root, directory, session.streams.clone()))
            })
            .await?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let task = tokio::spawn(blocking(move || {
            let mut pieces = PieceReader { receiver, piece: Bytes::new(), finished: false, ended };
            let _acting = root.act()?;
            let select = |entry: &mut ArchiveEntry| {
                entry.translate_owners(&|owner| root.shown(owner));
                true
            };
            let mut unpacker = Unpacker::new(directory, UnpackOptions { select: &select, ..UnpackOptions::CAREFUL });
            unpacker.unpack(&mut ArchiveReader::new(decompress(&mut pieces)?))?;
            // Tar ends before its padding does; whoever sends it waits until all of it was taken.
            io::copy(&mut pieces, &mut io::sink()).map_err(|error| Error::io("receive a tree", error))?;
            drop(entry);
            Ok(TreeSummary { entries: unpacker.summary().entries, bytes: unpacker.summary().bytes })
        }));
        Ok(TreeWriter { pieces: Some(sender), task })
    }
}

/// A tree on its way out.
#[derive(Debug)]
pub struct TreeReader {
    pieces: mpsc::Receiver<Result<Bytes>>,
    // It ends by itself when the receiver is gone.
    _task: JoinHandle<()>,
}

impl TreeReader {
    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.pieces.recv().await
    }
}

/// A tree on its way in.
#[derive(Debug)]
pub struct TreeWriter {
    pieces: Option<mpsc::Sender<Option<Bytes>>>,
    task: JoinHandle<Result<TreeSummary>>,
}

impl TreeWriter {
    /// Adds bytes; waits while unpacking is slower than the sender.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        if let Some(pieces) = &self.pieces
            && pieces.send(Some(bytes)).await.is_ok()
        {
            return Ok(());
        }
        // The unpacker has given up; it says why.
        self.pieces = None;
        match (&mut self.task).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) => Err(Error::invalid("data", "there is more after the end of the archive")),
            Err(error) => Err(Error::internal("unpacking panicked").with_source(error)),
        }
    }

    /// Ends the stream and waits until everything is unpacked.
    pub async fn finish(mut self) -> Result<TreeSummary> {
        if let Some(pieces) = self.pieces.take() {
            // When this fails, the unpacker has given up and says why below.
            let _ = pieces.send(None).await;
        }
        self.task.await.unwrap_or_else(|error| Err(Error::internal("unpacking panicked").with_source(error)))
    }
}

/// Sends what is written in pieces.
struct PieceWriter {
    sender: mpsc::Sender<Result<Bytes>>,
    piece: BytesMut,
    ended: CancellationToken,
}

impl PieceWriter {
    fn send(&mut self) -> io::Result<()> {
        let piece = self.piece.split().freeze();
        let sent = until(&self.ended, self.sender.send(Ok(piece))).ok_or_else(session_ended)?;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}

/// Reads what is sent in pieces. The end is only the end when it is said.
struct PieceReader {
    receiver: mpsc::Receiver<Option<Bytes>>,
    piece: Bytes,
    finished: bool,
    ended: CancellationToken,
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            if self.finished {
                return Ok(0);
            }
            match until(&self.ended, self.receiver.recv()).ok_or_else(session_ended)? {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.finished = true,
                None => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream was broken off")),
            }
        }
        let length = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// Waits on a thread where blocking is fine; `None` when the session is ended meanwhile.
fn until<T>(ended: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::runtime::Handle::current().block_on(async {
        tokio::select! {
            biased;
            () = ended.cancelled() => None,
            outcome = work => Some(outcome),
        }
    })
}

fn session_ended() -> io::Error {
    io::Error::other("the session was destroyed, or the host stopped, while the tree was on its way")
}
