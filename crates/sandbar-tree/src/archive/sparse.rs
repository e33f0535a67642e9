//! The four encodings of sparse files in tar archives.

use std::io::Read;

use super::{
    entry::Segment,
    pax::{Records, number},
};

/// Limit on the segments of one file, against malicious archives.
const MAX_SEGMENTS: usize = 1 << 20;

/// Location of the map of a sparse file.
pub(super) enum SparseForm {
    /// In extended records (GNU 0.0 and 0.1): the map and the real size.
    Records { segments: Vec<Segment>, size: u64 },
    /// At the start of the data (GNU 1.0): the real size.
    InData { size: u64 },
}

impl SparseForm {
    /// Reads the records of a member: `Ok(None)` for a file without holes, `Err` for contradictory
    /// records.
    pub(super) fn of(records: &Records) -> Result<Option<Self>, &'static str> {
        if records.get("GNU.sparse.major").is_some() {
            if (
                records.number("GNU.sparse.major"),
                records.number("GNU.sparse.minor"),
            ) != (Some(1), Some(0))
            {
                return Err("has an unknown sparse format");
            }
            let size = records
                .number("GNU.sparse.realsize")
                .ok_or("has no real size")?;
            return Ok(Some(Self::InData { size }));
        }
        let numbers: Option<Vec<u64>> = if let Some(map) = records.get("GNU.sparse.map") {
            map.split(|byte| *byte == b',')
                .filter(|part| !part.is_empty())
                .map(number)
                .collect()
        } else if records.get("GNU.sparse.size").is_some() {
            let wanted = |key: &[u8]| key == b"GNU.sparse.offset" || key == b"GNU.sparse.numbytes";
            records
                .iter()
                .filter(|(key, _)| wanted(key))
                .map(|(_, value)| number(value))
                .collect()
        } else {
            return Ok(None);
        };
        let numbers = numbers.ok_or("has a damaged sparse map")?;
        let size = records
            .number("GNU.sparse.size")
            .ok_or("has no real size")?;
        Ok(Some(Self::Records {
            segments: pairs(&numbers).ok_or("has a damaged sparse map")?,
            size,
        }))
    }
}

fn pairs(numbers: &[u64]) -> Option<Vec<Segment>> {
    let chunks = numbers.chunks_exact(2);
    chunks.remainder().is_empty().then(|| {
        chunks
            .map(|pair| Segment {
                offset: pair[0],
                length: pair[1],
            })
            .collect()
    })
}

/// Reads the map at the start of a GNU 1.0 member. Returns it with its size in bytes, padding
/// included.
pub(super) fn read_map(data: &mut impl Read) -> std::io::Result<Option<(Vec<Segment>, u64)>> {
    let mut lines = Lines {
        data,
        block: [0; 512],
        at: 512,
        read: 0,
    };
    let Some(count) = lines
        .next_number()?
        .and_then(|count| usize::try_from(count).ok())
    else {
        return Ok(None);
    };
    if count > MAX_SEGMENTS {
        return Ok(None);
    }
    let mut segments = Vec::new();
    for _ in 0..count {
        let (Some(offset), Some(length)) = (lines.next_number()?, lines.next_number()?) else {
            return Ok(None);
        };
        segments.push(Segment { offset, length });
    }
    Ok(Some((segments, lines.read)))
}

/// Reader of decimal numbers, one per line, in whole blocks.
struct Lines<'a, R> {
    data: &'a mut R,
    block: [u8; 512],
    at: usize,
    read: u64,
}

impl<R: Read> Lines<'_, R> {
    fn next_number(&mut self) -> std::io::Result<Option<u64>> {
        let mut digits = Vec::new();
        loop {
            if self.at == self.block.len() {
                self.data.read_exact(&mut self.block)?;
                self.at = 0;
                self.read += 512;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => return Ok(number(&digits)),
                byte if digits.len() < 20 => digits.push(byte),
                _ => return Ok(None),
            }
        }
    }
}

/// Encodes the map in GNU 1.0 form, padded to whole blocks.
pub(super) fn encode_map(segments: &[Segment]) -> Vec<u8> {
    let mut out = format!("{}\n", segments.len()).into_bytes();
    for segment in segments {
        out.extend_from_slice(format!("{}\n{}\n", segment.offset, segment.length).as_bytes());
    }
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

/// Returns whether the segments are in order, inside a file of `size` bytes, and hold `stored`
/// bytes in total.
pub(super) fn is_sound(segments: &[Segment], size: u64, stored: u64) -> bool {
    let mut end = 0u64;
    let mut total = 0u64;
    for segment in segments {
        let Some(next) = segment.offset.checked_add(segment.length) else {
            return false;
        };
        if segment.offset < end || next > size {
            return false;
        }
        end = next;
        total += segment.length;
    }
    total == stored
}
