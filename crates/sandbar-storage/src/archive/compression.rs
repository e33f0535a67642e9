//! Which compression a stream has, told by its first bytes.

use std::io::{BufRead, BufReader, Chain, Cursor, Read};

use sandbar_core::{Error, ErrorCode, Result};

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// By the first four bytes of a stream. An error for the kinds people have and we do not read.
    pub fn detect(start: &[u8]) -> Result<Self> {
        let unsupported = |kind: &str, tool: &str| {
            Err(Error::new(ErrorCode::InvalidArgument, format!("archive is compressed with {kind}"))
                .with_hint(format!("recompress it, for example `{tool} -dc FILE | zstd > FILE.tar.zst`")))
        };
        match start {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            // A skippable frame may come first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [0xfd, b'7', b'z', b'X', ..] => unsupported("xz", "xz"),
            [b'B', b'Z', b'h', ..] => unsupported("bzip2", "bzip2"),
            _ => Ok(Self::None),
        }
    }
}

/// The content of a stream that may be compressed with gzip or zstd.
pub fn decompress<'a>(mut stream: impl Read + 'a) -> Result<Box<dyn Read + 'a>> {
    let failure = |error| Error::io("read the archive", error);
    let mut start = Vec::with_capacity(4);
    stream.by_ref().take(4).read_to_end(&mut start).map_err(failure)?;
    let compression = Compression::detect(&start)?;
    let whole: Chain<Cursor<Vec<u8>>, _> = Cursor::new(start).chain(stream);
    Ok(match compression {
        Compression::None => Box::new(whole),
        // Parallel compressors write several members one after the other.
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(64 << 10, whole))),
        Compression::Zstd => Box::new(zstd_decoder(BufReader::with_capacity(128 << 10, whole)).map_err(failure)?),
    })
}

fn zstd_decoder<'a>(stream: impl BufRead + 'a) -> std::io::Result<impl Read + 'a> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(stream)?;
    // A frame may ask for a window of gigabytes; 128 MiB is what `zstd --long` uses.
    decoder.window_log_max(27)?;
    Ok(decoder)
}
