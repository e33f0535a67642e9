//! Whole trees in and out of a session, as tar streams.

use std::{
    io::{self, Read},
    path::Path,
};

use bytes::{Buf as _, Bytes};
use rustix::fs::OFlags;
use sandbar_core::{Error, ErrorCode, Result, SessionId, TreeSummary};
use sandbar_tree::{
    archive::{ArchiveEntry, ArchiveReader, UnpackOptions, Unpacker, decompress},
    session_tree::absolute,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    Host,
    blocking::spawn_waiting,
    verb::{Call, Verb},
    worker::{Request, block_on, path_bytes},
};

/// Number of pieces of the stream that are buffered.
const MAX_BUFFERED_PIECES: usize = 4;

impl Host {
    /// Exports `path` as a tar stream, with names that begin with its last component.
    pub async fn export_tree(&self, id: &SessionId, path: &Path) -> Result<TreeReader> {
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_PIECES);
        let (id, path) = (id.clone(), absolute(path)?);
        // Opened before anything is sent, so that a missing path is an error of this call and not a
        // broken stream.
        let opened = {
            let (id, path) = (id.clone(), path.clone());
            let call = Call::on(&id, Verb::ExportTree).with("path", path.to_string_lossy());
            self.run(call, move |engine| {
                let session = engine.session(&id)?;
                let entry = session.admission.enter_shared()?;
                engine.present(&id)?;
                let tree = session.tree(engine)?;
                tree.open_path(&path, OFlags::PATH | OFlags::NOFOLLOW)?;
                Ok((entry, tree, session))
            })
            .await?
        };
        let (entry, tree, session) = opened;
        let request = Request::Export {
            path: path_bytes(&path),
        };
        let ended = session.streams.clone();
        let job = self
            .engine()
            .start_walk(&session.walks, Some(&tree), request, &ended)
            .await;
        let mut job = job?;
        let slot = session.slots.stream()?;
        let task = spawn_waiting(move || {
            let _slot = slot;
            let outcome = block_on(async {
                while let Some(bytes) = job.next_bytes().await? {
                    let sent = tokio::select! {
                        biased;
                        () = ended.cancelled() => return Err(transfer_ended()),
                        sent = sender.send(Ok(bytes.into())) => sent,
                    };
                    if sent.is_err() {
                        break;
                    }
                }
                Ok(())
            });
            // Before the error is sent: a reader that does not take it must not block the session.
            drop((job, entry, tree));
            if let Err(error) = outcome {
                // Fails when the reader was dropped.
                let _ = sender.blocking_send(Err(error));
            }
        })?;
        Ok(TreeReader {
            pieces: receiver,
            _task: task,
        })
    }

    /// Unpacks a tar stream below the directory `path`, which is created if missing. A stream that
    /// is truncated or malformed is an error; what was unpacked before it is kept.
    pub async fn import_tree(&self, id: &SessionId, path: &Path) -> Result<TreeWriter> {
        let (id, path) = (id.clone(), absolute(path)?);
        let call = Call::on(&id, Verb::ImportTree).with("path", path.to_string_lossy());
        let (entry, root, directory, session) = self
            .run(call, move |engine| {
                let session = engine.session(&id)?;
                let entry = session.admission.enter_shared()?;
                engine.active(&id)?;
                let root = session.root(engine)?;
                let directory = session.tree(engine)?.make_directories(&path, None)?;
                Ok((entry, root, directory, session))
            })
            .await?;
        let (slot, ended) = (session.slots.stream()?, session.streams.clone());
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_PIECES);
        let task = spawn_waiting(move || {
            let _slot = slot;
            let mut pieces = PieceReader {
                receiver,
                piece: Bytes::new(),
                finished: false,
                ended,
            };
            let _acting = root.act()?;
            let select = |entry: &mut ArchiveEntry| {
                entry.translate_owners(&|owner| root.shown(owner));
                true
            };
            let mut unpacker = Unpacker::new(
                directory,
                UnpackOptions {
                    select: &select,
                    ..UnpackOptions::CAREFUL
                },
            );
            unpacker.unpack(&mut ArchiveReader::new(decompress(&mut pieces)?))?;
            // The sender waits until its padding after the end of the archive is read as well.
            io::copy(&mut pieces, &mut io::sink())
                .map_err(|error| Error::io("receive a tree", error))?;
            drop(entry);
            Ok(TreeSummary {
                entries: unpacker.summary().entries,
                bytes: unpacker.summary().bytes,
            })
        })?;
        Ok(TreeWriter {
            pieces: Some(sender),
            task,
        })
    }
}

/// An export: the tar stream of a tree.
#[derive(Debug)]
pub struct TreeReader {
    pieces: mpsc::Receiver<Result<Bytes>>,
    // Ends when the receiver is dropped.
    _task: JoinHandle<()>,
}

impl TreeReader {
    /// Returns the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.pieces.recv().await
    }
}

/// An import: takes the tar stream of a tree.
#[derive(Debug)]
pub struct TreeWriter {
    pieces: Option<mpsc::Sender<Option<Bytes>>>,
    task: JoinHandle<Result<TreeSummary>>,
}

impl TreeWriter {
    /// Appends bytes; waits while unpacking is slower than the sender.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        if let Some(pieces) = &self.pieces
            && pieces.send(Some(bytes)).await.is_ok()
        {
            return Ok(());
        }
        // The unpacker has ended; its result says why.
        self.pieces = None;
        match (&mut self.task).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) => Err(Error::invalid(
                "data",
                "stream continues after the end of the archive",
            )),
            Err(error) => Err(Error::internal("unpacking panicked").with_source(error)),
        }
    }

    /// Ends the stream and waits until everything is unpacked.
    pub async fn finish(mut self) -> Result<TreeSummary> {
        if let Some(pieces) = self.pieces.take() {
            // Fails when the unpacker has ended; its result below says why.
            let _ = pieces.send(None).await;
        }
        self.task
            .await
            .unwrap_or_else(|error| Err(Error::internal("unpacking panicked").with_source(error)))
    }
}

/// Reader of the pieces from a [`TreeWriter`]. The stream ends only with an explicit end; a dropped
/// writer is an error.
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
                None => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "stream was aborted",
                    ));
                }
            }
        }
        let length = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// Waits for `work`; blocks the thread. `None` when `ended` is cancelled meanwhile.
fn until<T>(ended: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::runtime::Handle::current().block_on(async {
        tokio::select! {
            biased;
            () = ended.cancelled() => None,
            outcome = work => Some(outcome),
        }
    })
}

const TRANSFER_ENDED: &str =
    "session was destroyed, or host stopped, during the transfer of the tree";

fn session_ended() -> io::Error {
    io::Error::other(TRANSFER_ENDED)
}

fn transfer_ended() -> Error {
    Error::new(ErrorCode::Unavailable, TRANSFER_ENDED)
}
