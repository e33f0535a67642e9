//! Connects the blocking side, which reads and writes files, with the async client.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sandbar_client::Client;
use sandbar_core::{Error, Result, SessionId, TreeSummary};
use sandbar_tree::archive::ArchiveWriter;
use tokio::{sync::mpsc, task::spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::terminal::Progress;

use super::unpack::unpack;

/// Size of a chunk: large against the overhead of a message, far below the API's message limit.
const CHUNK_BYTES: usize = 256 << 10;

/// First component of the names in a stream.
#[derive(Clone, Debug)]
pub(crate) enum TopLevel {
    /// The source itself under this name.
    Named(OsString),
    /// The contents of the source, without the source.
    Contents,
}

/// Copies a file or directory of this machine below `target` in a session. Links are kept as links.
pub(crate) async fn send(
    client: &Client,
    id: &SessionId,
    source: PathBuf,
    top: TopLevel,
    target: &Path,
    progress: Progress,
) -> Result<TreeSummary> {
    let (sender, receiver) = mpsc::channel(4);
    let packing = spawn_blocking(move || {
        let writer = ChunkWriter {
            sender: sender.clone(),
            buffer: Vec::with_capacity(CHUNK_BYTES),
            progress,
        };
        let packed = pack(&source, top, writer);
        if packed.is_err() {
            // Without the error the server would take the stream for complete.
            let _ = sender.blocking_send(Err(io::Error::other("could not read the files")));
        }
        packed
    });
    let sent = client
        .import_tree(id, target, StreamReader::new(ReceiverStream::new(receiver)))
        .await;
    let packed = packing
        .await
        .map_err(|error| Error::internal("packing thread panicked").with_source(error))?;
    match (sent, packed) {
        // When the server closes the stream, packing fails with a broken pipe: the server's error
        // is the cause.
        (Err(error), Err(local)) if is_broken_pipe(&local) => Err(error),
        (_, Err(local)) => Err(local),
        (sent, Ok(())) => sent,
    }
}

/// Copies a file or directory of a session into `directory` of this machine, as `name`, or its
/// contents when there is no name.
pub(crate) async fn receive(
    client: &Client,
    id: &SessionId,
    source: &Path,
    directory: PathBuf,
    name: Option<OsString>,
    progress: Progress,
) -> Result<()> {
    let (mut near, far) = tokio::io::duplex(4 * CHUNK_BYTES);
    let unpacking = spawn_blocking(move || {
        unpack(
            progress.wrap(SyncIoBridge::new(far)),
            &directory,
            name.as_deref(),
        )
    });
    let received = client.export_tree(id, source, &mut near).await;
    drop(near);
    let unpacked = unpacking
        .await
        .map_err(|error| Error::internal("unpacking thread panicked").with_source(error))?;
    match (received, unpacked) {
        // When unpacking stops, receiving fails with a broken pipe: the local error is the cause.
        (Err(error), Err(local)) if is_broken_pipe(&error) => Err(local),
        (Err(error), _) => Err(error),
        (Ok(_), unpacked) => unpacked,
    }
}

fn pack(source: &Path, top: TopLevel, output: impl Write) -> Result<()> {
    let failed = |error| Error::io(format!("could not read `{}`", source.display()), error);
    let archived_as = match top {
        TopLevel::Named(name) => PathBuf::from(name),
        TopLevel::Contents => PathBuf::new(),
    };
    // Opened by its parent directory, so that a symbolic link is copied and not followed.
    let (parent, name) = match (source.parent(), source.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => (parent, Path::new(name)),
        (_, Some(name)) => (Path::new("."), Path::new(name)),
        _ => (source, Path::new(".")),
    };
    let parent = File::open(parent).map_err(failed)?;
    let mut writer = ArchiveWriter::new(output);
    writer.append_tree(parent.as_fd(), name, &archived_as)?;
    writer.finish()?.0.flush().map_err(failed)
}

fn is_broken_pipe(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe)
}

/// Writer that sends its bytes in chunks.
struct ChunkWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    progress: Progress,
}

impl ChunkWriter {
    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        self.progress.add(chunk.len());
        self.sender
            .blocking_send(Ok(chunk.into()))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == CHUNK_BYTES {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
