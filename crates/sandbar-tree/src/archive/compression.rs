//! Detection of a stream's compression by its first bytes.

use std::io::{BufRead, BufReader, Chain, Cursor, Read};

use sandbar_core::{Error, ErrorCode, Result};

/// Compression of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Detects the compression by the first four bytes. An error for formats that are not
    /// supported.
    pub fn detect(start: &[u8]) -> Result<Self> {
        let unsupported = |kind: &str, tool: &str| {
            Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("archive is compressed with {kind}"),
            )
            .with_hint(format!(
                "recompress it, for example `{tool} -dc FILE | zstd > FILE.tar.zst`"
            )))
        };
        match start {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            // The second pattern is a skippable frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [0xfd, b'7', b'z', b'X', ..] => unsupported("xz", "xz"),
            [b'B', b'Z', b'h', ..] => unsupported("bzip2", "bzip2"),
            _ => Ok(Self::None),
        }
    }
}

/// Decompresses a stream that may be compressed with gzip or zstd.
pub fn decompress<'a>(mut stream: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    let failure = |error| Error::io("read the archive", error);
    let mut start = Vec::with_capacity(4);
    stream
        .by_ref()
        .take(4)
        .read_to_end(&mut start)
        .map_err(failure)?;
    let compression = Compression::detect(&start)?;
    let whole: Chain<Cursor<Vec<u8>>, _> = Cursor::new(start).chain(stream);
    Ok(match compression {
        Compression::None => Box::new(whole),
        // Parallel compressors write several members in sequence.
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(
            BufReader::with_capacity(64 << 10, whole),
        )),
        Compression::Zstd => {
            Box::new(zstd_decoder(BufReader::with_capacity(128 << 10, whole)).map_err(failure)?)
        }
    })
}

fn zstd_decoder<'a>(stream: impl BufRead + 'a) -> std::io::Result<impl Read + 'a> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(stream)?;
    // Bounds memory: a frame may declare a window of gigabytes. `zstd --long` uses 128 MiB.
    decoder.window_log_max(27)?;
    Ok(decoder)
}
