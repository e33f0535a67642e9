//! Download of one blob into a file, resumed over several connections.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use http::{StatusCode, header};
use reqwest::Response;
use sandbar_core::{Error, Result};
use sha2::{Digest as _, Sha256};
use tokio::{fs::File, io::AsyncWriteExt as _, task::spawn_blocking};

use crate::{
    blobs::{ImageDescriptor, compare, hex},
    connection::Connection,
    retry::{Attempts, Failure, RetryPolicy},
};

/// Running download.
struct Download<'a> {
    connection: &'a Connection,
    descriptor: &'a ImageDescriptor,
    /// Expected size.
    size: u64,
    file: File,
    /// Bytes downloaded, and their hash so far.
    have: u64,
    hasher: Sha256,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// Downloads a blob into `path`, resuming an earlier attempt, and checks its digest. `progress`
/// gets the bytes downloaded so far.
pub(crate) async fn download(
    connection: &Connection,
    descriptor: &ImageDescriptor,
    size: u64,
    path: &Path,
    retry_policy: RetryPolicy,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let (file, have, hasher) = reopen(path, size).await?;
    let left_over = have > 0;
    let mut download = Download {
        connection,
        descriptor,
        size,
        file,
        have,
        hasher,
        progress,
    };
    download.run(retry_policy).await?;
    let outcome = download.finish().await;
    if outcome.is_err() && left_over {
        // The partial file of an earlier run may be damaged: start over once.
        download.start_over().await?;
        download.run(retry_policy).await?;
        return download.finish().await;
    }
    outcome
}

impl Download<'_> {
    async fn run(&mut self, retry_policy: RetryPolicy) -> Result<()> {
        let mut attempts = Attempts::new(retry_policy);
        while self.have < self.size {
            let before = self.have;
            if let Err(failure) = self.attempt().await {
                if self.have > before {
                    attempts.progressed();
                }
                attempts.after(failure).await?;
            }
        }
        Ok(())
    }

    /// Downloads what one connection delivers.
    async fn attempt(&mut self) -> Result<(), Failure> {
        let part = format!("blobs/{}", self.descriptor.digest);
        let response = match self.connection.get(&part, "*/*", self.have).await {
            Ok(response) => response,
            Err(failure) => {
                if matches!(failure, Failure::Transient(_, Some(pause)) if pause.is_zero()) {
                    self.start_over().await?;
                }
                return Err(failure);
            }
        };
        if self.have > 0 && !goes_on_from(&response, self.have) {
            self.start_over().await?;
        }
        self.receive(response).await
    }

    async fn receive(&mut self, mut response: Response) -> Result<(), Failure> {
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) if self.have == self.size => return Ok(()),
                Ok(None) => {
                    let message = format!(
                        "ended the download of `{}` after {} of {} bytes",
                        self.descriptor.digest, self.have, self.size
                    );
                    return Err(Failure::Transient(self.connection.refused(&message), None));
                }
                Err(error) => return Err(self.connection.broken(error)),
            };
            if self.have + chunk.len() as u64 > self.size {
                let message = format!(
                    "sends more than the {} bytes of `{}`",
                    self.size, self.descriptor.digest
                );
                return Err(self.connection.refused(&message).into());
            }
            self.hasher.update(&chunk);
            self.file.write_all(&chunk).await.map_err(unwritable)?;
            self.have += chunk.len() as u64;
            (self.progress)(self.have);
        }
    }

    async fn start_over(&mut self) -> Result<()> {
        self.file.set_len(0).await.map_err(unwritable)?;
        tokio::io::AsyncSeekExt::rewind(&mut self.file)
            .await
            .map_err(unwritable)?;
        (self.have, self.hasher) = (0, Sha256::new());
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        self.file.flush().await.map_err(unwritable)?;
        if let Err(error) = compare(
            &self.descriptor.digest,
            &hex(&self.hasher.clone().finalize()),
        ) {
            self.file.set_len(0).await.map_err(unwritable)?;
            return Err(error.with_field("image"));
        }
        self.file.sync_all().await.map_err(unwritable)
    }
}

/// Opens the partial file of an earlier attempt and hashes its content.
async fn reopen(path: &Path, size: u64) -> Result<(File, u64, Sha256)> {
    let path = path.to_owned();
    let open = move || -> std::io::Result<_> {
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        if file.metadata()?.len() > size {
            file.set_len(0)?;
        }
        let (mut hasher, mut have, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
        loop {
            let got = file.read(&mut buffer)?;
            if got == 0 {
                break;
            }
            hasher.update(&buffer[..got]);
            have += got as u64;
        }
        file.seek(SeekFrom::Start(have))?;
        Ok((File::from_std(file), have, hasher))
    };
    match spawn_blocking(open).await {
        Ok(opened) => opened.map_err(unwritable),
        Err(error) => Err(Error::internal("task of the image cache failed").with_source(error)),
    }
}

/// Returns whether a response starts at the requested offset.
fn goes_on_from(response: &Response, have: u64) -> bool {
    let range = response
        .headers()
        .get(header::CONTENT_RANGE)
        .and_then(|range| range.to_str().ok());
    let begins = range.and_then(|range| {
        range
            .strip_prefix("bytes ")?
            .split('-')
            .next()?
            .parse()
            .ok()
    });
    response.status() == StatusCode::PARTIAL_CONTENT && begins == Some(have)
}

fn unwritable(error: std::io::Error) -> Error {
    Error::io("write a blob to the image cache", error)
}
