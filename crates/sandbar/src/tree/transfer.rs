//! Between the blocking side, which reads and writes files, and the async side, which talks to the server.

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
use sandbar_storage::archive::ArchiveWriter;
use tokio::{sync::mpsc, task::spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::progress::Progress;

use super::unpack::unpack;

/// Large enough that a message is mostly content, far below the message limit of the API.
const CHUNK: usize = 256 << 10;

/// What the names in a stream start with.
#[derive(Clone, Debug)]
pub(crate) enum TopLevel {
    /// The source itself, under this name.
    Named(OsString),
    /// What is in the source, without the source.
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
        let writer = ChunkWriter { sender: sender.clone(), buffer: Vec::with_capacity(CHUNK), progress };
        let packed = pack(&source, top, writer);
        if packed.is_err() {
            // A stream that only ended would be taken for a whole one.
            let _ = sender.blocking_send(Err(io::Error::other("the files could not be read")));
        }
        packed
    });
    let sent = client.import_tree(id, target, StreamReader::new(ReceiverStream::new(receiver))).await;
    let packed = packing.await.map_err(|error| Error::internal("the packing thread failed").with_source(error))?;
    match (sent, packed) {
        // When the server hangs up, the packer only sees a broken pipe: the server's word counts.
        (Err(error), Err(local)) if is_broken_pipe(&local) => Err(error),
        (_, Err(local)) => Err(local),
        (sent, Ok(())) => sent,
    }
}

/// Copies a file or directory of a session into `directory` of this machine, as `name`, or its contents when there is no
/// name.
pub(crate) async fn receive(
    client: &Client,
    id: &SessionId,
    source: &Path,
    directory: PathBuf,
    name: Option<OsString>,
    progress: Progress,
) -> Result<()> {
    let (mut near, far) = tokio::io::duplex(4 * CHUNK);
    let unpacking = spawn_blocking(move || unpack(progress.wrap(SyncIoBridge::new(far)), &directory, name.as_deref()));
    let received = client.export_tree(id, source, &mut near).await;
    drop(near);
    let unpacked =
        unpacking.await.map_err(|error| Error::internal("the unpacking thread failed").with_source(error))?;
    match (received, unpacked) {
        // When unpacking stops, the receiver only sees a broken pipe: what stopped it counts.
        (Err(error), Err(local)) if is_broken_pipe(&error) => Err(local),
        (Err(error), _) => Err(error),
        (Ok(_), unpacked) => unpacked,
    }
}

fn pack(source: &Path, top: TopLevel, output: impl Write) -> Result<()> {
    let complain = |error| Error::io(format!("could not read `{}`", source.display()), error);
    let archived_as = match top {
        TopLevel::Named(name) => PathBuf::from(name),
        TopLevel::Contents => PathBuf::new(),
    };
    // What is copied is named by its parent: a link must be found, not what it leads to.
    let (parent, name) = match (source.parent(), source.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => (parent, Path::new(name)),
        (_, Some(name)) => (Path::new("."), Path::new(name)),
        _ => (source, Path::new(".")),
    };
    let parent = File::open(parent).map_err(complain)?;
    let mut writer = ArchiveWriter::new(output);
    writer.append_tree(parent.as_fd(), name, &archived_as)?;
    writer.finish()?.0.flush().map_err(complain)
}

fn is_broken_pipe(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe)
}

/// Sends what is written to it, in chunks.
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
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
        self.progress.add(chunk.len());
        self.sender.blocking_send(Ok(chunk.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == CHUNK {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
