//! Files of a session as streams.

use std::{path::Path, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sandbar_core::{Error, WriteOptions};
use sandbar_tree::session_tree::absolute;
use tokio_util::io::ReaderStream;

use super::session::{LocalSession, blocking};
use crate::{ByteStream, FileContent, FileStream, Result};

/// Size of a read.
const READ_BYTES: usize = 256 << 10;

impl LocalSession {
    pub(super) async fn read_file(self: &Arc<Self>, path: &Path) -> Result<FileContent> {
        let (session, path) = (Arc::clone(self), absolute(path)?);
        let shown = path.display().to_string();
        let (file, stat) = blocking(move || {
            session.present()?;
            session.tree.open_file(&path)
        })
        .await?;
        let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), READ_BYTES);
        let content = pieces
            .map_err(move |error| Error::io(format!("could not read `{shown}`"), error).into())
            .boxed();
        Ok(FileContent { stat, content })
    }

    pub(super) async fn write_file(
        self: &Arc<Self>,
        path: &Path,
        options: WriteOptions,
        mut content: ByteStream,
    ) -> Result<u64> {
        let (session, path) = (Arc::clone(self), absolute(path)?);
        let mut draft = {
            let _inside = self.enter().await?;
            blocking(move || session.tree.draft(&path, options)).await?
        };
        let mut size = 0;
        while let Some(bytes) = content.try_next().await? {
            size += bytes.len() as u64;
            draft = blocking(move || draft.write(&bytes).map(|()| draft)).await?;
        }
        let _inside = self.enter().await?;
        blocking(move || draft.commit()).await?;
        Ok(size)
    }

    pub(super) async fn list_files(
        self: &Arc<Self>,
        path: &Path,
        depth: u32,
    ) -> Result<FileStream> {
        let (session, path) = (Arc::clone(self), absolute(path)?);
        let entries = blocking(move || {
            session.present()?;
            session.tree.list_all(&path, depth)
        })
        .await?;
        Ok(stream::iter(entries).map(Ok).boxed())
    }
}
