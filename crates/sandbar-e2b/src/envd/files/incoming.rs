//! Reading the body of an upload in constant memory.

use std::{io::Write as _, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    http::StatusCode,
};
use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use futures::StreamExt as _;
use tokio::time::timeout;

use super::encoding::Encoding;
use crate::rest::ApiError;

/// Compressed bytes that are unpacked at once; gzip expands them at most about a thousand times.
const PACKED_CHUNK_BYTES: usize = 1 << 10;

/// Limits for draining the body of a refused upload. A client that is still sending would not read
/// the response.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_DRAINED_BYTES: u64 = 4 << 30;

pub(super) struct Incoming {
    body: BodyDataStream,
    unpacking: Option<Unpacking>,
}

struct Unpacking {
    decoder: MultiGzDecoder<Vec<u8>>,
    packed: Bytes,
    is_complete: bool,
}

impl Incoming {
    pub(super) fn new(body: Body, encoding: Encoding) -> Self {
        let unpacking = (encoding == Encoding::Gzip).then(|| Unpacking {
            decoder: MultiGzDecoder::new(Vec::new()),
            packed: Bytes::new(),
            is_complete: false,
        });
        Self {
            body: body.into_data_stream(),
            unpacking,
        }
    }

    /// Returns the next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(unpacking) = &mut self.unpacking
                && let Some(bytes) = unpacking.next().map_err(|error| not_gzip(&error))?
            {
                return Ok(Some(bytes));
            }
            let Some(arrived) = self.body.next().await else {
                let Some(unpacking) = &mut self.unpacking else {
                    return Ok(None);
                };
                return unpacking.finish().map_err(|error| not_gzip(&error));
            };
            let arrived = arrived.map_err(|error| {
                ApiError::new(
                    StatusCode::BAD_REQUEST,
                    format!("error reading body: {error}"),
                )
            })?;
            match &mut self.unpacking {
                Some(unpacking) => unpacking.packed = arrived,
                None if arrived.is_empty() => {}
                None => return Ok(Some(arrived)),
            }
        }
    }

    /// Discards the rest, and returns whether the end was reached.
    pub(super) async fn drain(&mut self) -> bool {
        let rest = async {
            let mut drained = 0;
            while let Some(Ok(bytes)) = self.body.next().await {
                drained += bytes.len() as u64;
                if drained > MAX_DRAINED_BYTES {
                    return false;
                }
            }
            true
        };
        timeout(DRAIN_TIMEOUT, rest).await.unwrap_or(false)
    }
}

impl Unpacking {
    /// Unpacks the next chunk; `None` if more input is needed.
    fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        while self.packed.has_remaining() {
            let chunk = &self.packed[..self.packed.len().min(PACKED_CHUNK_BYTES)];
            let used = self.decoder.write(chunk)?;
            if used == 0 {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            self.packed.advance(used);
            let unpacked = std::mem::take(self.decoder.get_mut());
            if !unpacked.is_empty() {
                return Ok(Some(unpacked.into()));
            }
        }
        Ok(None)
    }

    fn finish(&mut self) -> std::io::Result<Option<Bytes>> {
        if self.is_complete {
            return Ok(None);
        }
        self.decoder.try_finish()?;
        self.is_complete = true;
        let unpacked = std::mem::take(self.decoder.get_mut());
        Ok((!unpacked.is_empty()).then(|| unpacked.into()))
    }
}

fn not_gzip(error: &std::io::Error) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        format!("error decompressing request body: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    async fn unpack(packed: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        let pieces = packed
            .chunks(777)
            .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
        let body = Body::from_stream(futures::stream::iter(pieces.collect::<Vec<_>>()));
        let mut incoming = Incoming::new(body, Encoding::Gzip);
        let mut unpacked = Vec::new();
        while let Some(bytes) = incoming.next().await? {
            assert!(bytes.len() <= 2 << 20, "{} at once", bytes.len());
            unpacked.extend_from_slice(&bytes);
        }
        Ok(unpacked)
    }

    #[tokio::test]
    async fn compressed_body_is_unpacked_in_chunks_and_must_be_complete() {
        let content = vec![b'x'; 20 << 20];
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&content).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(unpack(packed.clone()).await.unwrap(), content);
        for broken in [
            packed[..packed.len() - 3].to_vec(),
            b"not compressed".to_vec(),
        ] {
            assert!(unpack(broken).await.is_err());
        }
    }
}
