//! The body of an upload, as it comes in. However much it is, little of it is kept.

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
use crate::answer::ControlError;

/// Compressed bytes that are unpacked at once: they become a thousand times as many at most.
const SIP: usize = 1 << 10;

/// What is still taken of a body that is refused, and for how long. Who is cut off while sending never sees the answer.
const PATIENCE: Duration = Duration::from_mins(1);
const MOST_IN_VAIN: u64 = 4 << 30;

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
        Self { body: body.into_data_stream(), unpacking }
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ControlError> {
        loop {
            if let Some(unpacking) = &mut self.unpacking
                && let Some(bytes) = unpacking.next().map_err(|error| not_gzip(&error))?
            {
                return Ok(Some(bytes));
            }
            let Some(arrived) = self.body.next().await else {
                let Some(unpacking) = &mut self.unpacking else { return Ok(None) };
                return unpacking.finish().map_err(|error| not_gzip(&error));
            };
            let arrived = arrived
                .map_err(|error| ControlError::new(StatusCode::BAD_REQUEST, format!("error reading body: {error}")))?;
            match &mut self.unpacking {
                Some(unpacking) => unpacking.packed = arrived,
                None if arrived.is_empty() => {}
                None => return Ok(Some(arrived)),
            }
        }
    }

    /// Takes the rest and throws it away; says whether it came to the end.
    pub(super) async fn drain(&mut self) -> bool {
        let rest = async {
            let mut taken = 0;
            while let Some(Ok(bytes)) = self.body.next().await {
                taken += bytes.len() as u64;
                if taken > MOST_IN_VAIN {
                    return false;
                }
            }
            true
        };
        timeout(PATIENCE, rest).await.unwrap_or(false)
    }
}

impl Unpacking {
    /// What the next few bytes unpack to; `None` when more have to arrive.
    fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        while self.packed.has_remaining() {
            let sip = &self.packed[..self.packed.len().min(SIP)];
            let used = self.decoder.write(sip)?;
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

fn not_gzip(error: &std::io::Error) -> ControlError {
    ControlError::new(StatusCode::BAD_REQUEST, format!("error decompressing request body: {error}"))
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    async fn unpack(packed: Vec<u8>) -> Result<Vec<u8>, ControlError> {
        let pieces = packed.chunks(777).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
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
    async fn a_compressed_body_is_unpacked_a_little_at_a_time_and_has_to_be_whole() {
        let content = vec![b'x'; 20 << 20];
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&content).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(unpack(packed.clone()).await.unwrap(), content);
        for broken in [packed[..packed.len() - 3].to_vec(), b"not compressed".to_vec()] {
            assert!(unpack(broken).await.is_err());
        }
    }
}
