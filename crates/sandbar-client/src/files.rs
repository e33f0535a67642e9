//! File and directory tree calls.

use std::path::Path;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use sandbar_core::{Error, FileStat, MakeDirOptions, Result, SessionId, TreeSummary, WriteOptions};
use sandbar_proto::{
    pack_path,
    v1::{self, import_tree_request, read_file_response, write_file_request},
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::{
    Client,
    client::{incomplete, required},
    upload::{Part, SourceFailure, parts},
};

impl Client {
    /// Copies a file of the session to `target`, and returns its metadata.
    pub async fn read_file(
        &self,
        id: &SessionId,
        path: &Path,
        target: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<FileStat> {
        let (stat, mut pieces) = self.read_file_stream(id, path).await?;
        while let Some(bytes) = pieces.try_next().await? {
            write(target, &bytes).await?;
        }
        flush(target).await?;
        Ok(stat)
    }

    /// Opens a file of the session. Returns its metadata and a stream of its content.
    pub async fn read_file_stream(
        &self,
        id: &SessionId,
        path: &Path,
    ) -> Result<(FileStat, BoxStream<'static, Result<Bytes>>)> {
        let (path, path_bytes) = pack_path(path);
        let request = v1::ReadFileRequest {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            ..Default::default()
        };
        let mut answers = self.once(self.rpc.read_file(request)).await?;
        let first = self
            .once(answers.message())
            .await?
            .and_then(|message| message.to_owned_message().part);
        let Some(read_file_response::Part::Stat(stat)) = first else {
            return Err(incomplete("stat"));
        };
        let pieces = stream::try_unfold(
            (self.clone(), answers),
            |(client, mut answers)| async move {
                while let Some(message) = client.once(answers.message()).await? {
                    if let Some(read_file_response::Part::Data(bytes)) =
                        message.to_owned_message().part
                    {
                        return Ok(Some((bytes, (client, answers))));
                    }
                }
                Ok(None)
            },
        );
        Ok(((*stat).try_into()?, pieces.boxed()))
    }

    /// Writes `source` to a file of the session atomically, and returns the number of bytes.
    pub async fn write_file(
        &self,
        id: &SessionId,
        path: &Path,
        options: WriteOptions,
        source: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<u64> {
        let (path, path_bytes) = pack_path(path);
        let start = v1::WriteFileStart {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            mode: options.mode,
            create_dirs: options.create_dirs,
            owner: owner(options.owner).into(),
            ..Default::default()
        };
        let failure = SourceFailure::default();
        let content = parts(source, failure.clone()).map(|part| match part {
            Part::Data(bytes) => write_file_request::Part::Data(bytes),
            Part::Finish => v1::Finish::default().into(),
        });
        let requests =
            stream::iter([start.into()])
                .chain(content)
                .map(|part| v1::WriteFileRequest {
                    part: Some(part),
                    ..Default::default()
                });
        let answer = failure.explain(self.once(self.rpc.write_file(requests)).await)?;
        Ok(answer.into_owned().size)
    }

    /// Returns the metadata of an entry. Does not follow a symbolic link.
    pub async fn stat(&self, id: &SessionId, path: &Path) -> Result<FileStat> {
        let (path, path_bytes) = pack_path(path);
        let request = v1::StatRequest {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            ..Default::default()
        };
        let answer = self
            .repeat(|| self.rpc.stat(request.clone()))
            .await?
            .into_owned();
        required("stat", answer.stat.into_option())
    }

    /// Lists the entries below a directory, sorted by path. Depth 1 is its direct entries.
    pub async fn list_dir(&self, id: &SessionId, path: &Path, depth: u32) -> Result<Vec<FileStat>> {
        self.list_dir_stream(id, path, depth)
            .await?
            .try_collect()
            .await
    }

    /// Like [`list_dir`](Self::list_dir), as a stream.
    pub async fn list_dir_stream(
        &self,
        id: &SessionId,
        path: &Path,
        depth: u32,
    ) -> Result<BoxStream<'static, Result<FileStat>>> {
        let (path, path_bytes) = pack_path(path);
        let request = v1::ListDirRequest {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            depth,
            ..Default::default()
        };
        let answers = self.once(self.rpc.list_dir(request)).await?;
        let batches = stream::try_unfold(
            (self.clone(), answers),
            |(client, mut answers)| async move {
                let Some(batch) = client.once(answers.message()).await? else {
                    return Ok(None);
                };
                let entries = batch
                    .to_owned_message()
                    .entries
                    .into_iter()
                    .map(FileStat::try_from);
                Ok(Some((
                    stream::iter(entries.collect::<Vec<_>>()),
                    (client, answers),
                )))
            },
        );
        let mut entries = batches.try_flatten().boxed();
        // Reads the first message here, so that an error is that of the call.
        let first = entries.try_next().await?;
        Ok(stream::iter(first).map(Ok).chain(entries).boxed())
    }

    /// Creates a directory. Returns whether it is new.
    pub async fn make_dir(
        &self,
        id: &SessionId,
        path: &Path,
        options: MakeDirOptions,
    ) -> Result<bool> {
        let (path, path_bytes) = pack_path(path);
        let request = v1::MakeDirRequest {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            create_dirs: options.create_dirs,
            owner: owner(options.owner).into(),
            ..Default::default()
        };
        Ok(self
            .once(self.rpc.make_dir(request))
            .await?
            .into_owned()
            .created)
    }

    /// Renames a file, directory or link. An existing file of the new name is replaced; `options`
    /// are for missing parent directories.
    pub async fn move_path(
        &self,
        id: &SessionId,
        from: &Path,
        to: &Path,
        options: MakeDirOptions,
    ) -> Result<()> {
        let ((path, path_bytes), (new_path, new_path_bytes)) = (pack_path(from), pack_path(to));
        let request = v1::MovePathRequest {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            new_path,
            new_path_bytes,
            create_dirs: options.create_dirs,
            owner: owner(options.owner).into(),
            ..Default::default()
        };
        self.once(self.rpc.move_path(request)).await.map(drop)
    }

    /// Removes a file, a link, or a directory with its content. A missing path is no error.
    pub async fn remove_path(&self, id: &SessionId, path: &Path) -> Result<()> {
        let (path, path_bytes) = pack_path(path);
        let request = v1::RemovePathRequest {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            ..Default::default()
        };
        self.once(self.rpc.remove_path(request)).await.map(drop)
    }

    /// Writes a file or tree of the session to `target` as a tar stream with names relative to the
    /// parent of `path`. Returns the number of bytes.
    pub async fn export_tree(
        &self,
        id: &SessionId,
        path: &Path,
        target: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64> {
        let (path, path_bytes) = pack_path(path);
        let request = v1::ExportTreeRequest {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            ..Default::default()
        };
        let mut stream = self.once(self.rpc.export_tree(request)).await?;
        let mut total = 0;
        while let Some(message) = self.once(stream.message()).await? {
            let bytes = message.to_owned_message().data;
            write(target, &bytes).await?;
            total += bytes.len() as u64;
        }
        flush(target).await?;
        Ok(total)
    }

    /// Unpacks a tar stream below a directory of the session, which is created if missing.
    pub async fn import_tree(
        &self,
        id: &SessionId,
        path: &Path,
        source: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<TreeSummary> {
        let (path, path_bytes) = pack_path(path);
        let start = v1::ImportTreeStart {
            session_id: id.as_str().to_owned(),
            path,
            path_bytes,
            ..Default::default()
        };
        let failure = SourceFailure::default();
        let content = parts(source, failure.clone()).map(|part| match part {
            Part::Data(bytes) => import_tree_request::Part::Data(bytes),
            Part::Finish => v1::Finish::default().into(),
        });
        let requests =
            stream::iter([start.into()])
                .chain(content)
                .map(|part| v1::ImportTreeRequest {
                    part: Some(part),
                    ..Default::default()
                });
        let answer = failure
            .explain(self.once(self.rpc.import_tree(requests)).await)?
            .into_owned();
        Ok(TreeSummary {
            entries: answer.entries,
            bytes: answer.bytes,
        })
    }
}

fn owner(owner: Option<(u32, u32)>) -> Option<v1::FileOwner> {
    owner.map(|(uid, gid)| v1::FileOwner {
        uid,
        gid,
        ..Default::default()
    })
}

async fn write(target: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<()> {
    target
        .write_all(bytes)
        .await
        .map_err(|error| Error::io("write the received data", error))
}

async fn flush(target: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
    target
        .flush()
        .await
        .map_err(|error| Error::io("write the received data", error))
}
