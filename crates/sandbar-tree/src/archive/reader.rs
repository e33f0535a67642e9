//! Reader of tar streams.

use std::io::{ErrorKind, Read};

use rustix::fs::Timespec;
use sandbar_core::{Error, ErrorCode, Result};
use tar::{EntryType, GnuExtSparseHeader, Header};

use super::{
    entry::{ArchiveEntry, EntryKind, Segment},
    limits::{BoundedStream, Limits, add},
    pax::{Records, parse_time},
    sparse::{SparseForm, is_sound, read_map},
};

const BLOCK: u64 = 512;
/// Memory limit for names, attributes and sparse map of one member.
const MAX_EXTENSION_BYTES: u64 = 8 << 20;
/// Size limit of all global headers, which apply to every later member. Real ones are short: git
/// writes a commit hash.
const MAX_GLOBAL_HEADER_BYTES: usize = 64 << 10;
/// Limit on the extension headers of one member. Real ones have one of each kind.
const MAX_EXTENSION_HEADERS: usize = 16;

/// Reads a tar stream (already decompressed) member by member: v7, ustar, pax and GNU.
#[derive(Debug)]
pub struct ArchiveReader<R> {
    stream: BoundedStream<R>,
    limits: Limits,
    /// Bytes of names and link targets, and of extended attributes, so far.
    names: u64,
    attributes: u64,
    /// Unread data of the current member, and the padding after it.
    left: u64,
    padding: u64,
    global: Records,
    current: Vec<u8>,
    ended: bool,
}

/// Extension headers of the next member.
#[derive(Default)]
struct Extensions {
    records: Records,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl<R: Read> ArchiveReader<R> {
    pub fn new(stream: R) -> Self {
        Self {
            stream: BoundedStream::new(stream),
            limits: Limits::DEFAULT,
            names: 0,
            attributes: 0,
            left: 0,
            padding: 0,
            global: Records::default(),
            current: Vec::new(),
            ended: false,
        }
    }

    /// Replaces the limits, which are [`Limits::DEFAULT`] otherwise. The number of entries, their
    /// data and their depth are limited by the [`Unpacker`](super::Unpacker).
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limit(limits);
        self
    }

    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.stream.limit = limits.stream;
    }

    /// Returns the bytes read from the stream so far.
    pub fn bytes_read(&self) -> u64 {
        self.stream.read
    }

    /// Returns the next member, or `None` at the end. Skips unread data of the previous one.
    pub fn next_entry(&mut self) -> Result<Option<ArchiveEntry>> {
        let mut extensions = Extensions::default();
        for _ in 0..=MAX_EXTENSION_HEADERS {
            self.skip()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            self.current = header.path_bytes().into_owned();
            let size = header
                .entry_size()
                .map_err(|_| self.damaged("has an unreadable size"))?;
            match header.entry_type() {
                EntryType::XHeader => {
                    let data = self.extension(size)?;
                    extensions.records = Records::decode(&data)
                        .ok_or_else(|| self.damaged("has a damaged extended header"))?;
                }
                EntryType::XGlobalHeader => {
                    let data = self.extension(size)?;
                    let records = Records::decode(&data)
                        .ok_or_else(|| self.damaged("has a damaged global header"))?;
                    self.global.overlay(records);
                    if self.global.size() > MAX_GLOBAL_HEADER_BYTES {
                        return Err(self.damaged("makes the global headers larger than 64 KiB"));
                    }
                    self.global.retain_applied();
                }
                EntryType::GNULongName => {
                    extensions.long_name = Some(until_zero(self.extension(size)?));
                }
                EntryType::GNULongLink => {
                    extensions.long_link = Some(until_zero(self.extension(size)?));
                }
                _ => return self.member(&header, size, extensions).map(Some),
            }
        }
        Err(self.damaged(&format!(
            "has more than {MAX_EXTENSION_HEADERS} extended headers"
        )))
    }

    /// Reads data of the current member; 0 at its end. Holes are not part of the data.
    pub fn read_data(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let wanted = buffer
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let got = loop {
            match self.stream.read(&mut buffer[..wanted]) {
                Ok(got) => break got,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        };
        if got == 0 {
            return Err(self.damaged("is cut short"));
        }
        self.left -= got as u64;
        Ok(got)
    }

    fn skip(&mut self) -> Result<()> {
        // Saturating: the declared size may be `u64::MAX`.
        let wanted = self.left.saturating_add(self.padding);
        (self.left, self.padding) = (0, 0);
        let skipped = std::io::copy(&mut self.stream.by_ref().take(wanted), &mut std::io::sink());
        match skipped {
            Ok(skipped) if skipped == wanted => Ok(()),
            Ok(_) => Err(self.damaged("is cut short")),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Reads the next header block; `None` at the end mark or the end of the stream.
    fn header(&mut self) -> Result<Option<Header>> {
        if self.ended {
            return Ok(None);
        }
        let mut header = Header::new_old();
        let mut block = Vec::with_capacity(512);
        self.stream
            .by_ref()
            .take(BLOCK)
            .read_to_end(&mut block)
            .map_err(|error| self.broken(error))?;
        if block.iter().all(|byte| *byte == 0) {
            self.ended = true;
            return Ok(None);
        }
        if block.len() < 512 {
            return Err(self.malformed("archive ends in the middle of a header"));
        }
        header.as_mut_bytes().copy_from_slice(&block);
        let checked = block;
        fill_empty_numbers(&mut header);
        let stored = header.cksum().ok();
        let sum = |signed: bool| {
            checked.iter().enumerate().fold(0i64, |sum, (at, byte)| {
                let byte = if (148..156).contains(&at) {
                    b' '
                } else {
                    *byte
                };
                sum + if signed {
                    i64::from(byte.cast_signed())
                } else {
                    i64::from(byte)
                }
            })
        };
        // Some historic implementations summed signed bytes.
        if !stored
            .is_some_and(|stored| i64::from(stored) == sum(false) || i64::from(stored) == sum(true))
        {
            return Err(self.malformed("archive has a header with a wrong checksum"));
        }
        Ok(Some(header))
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > MAX_EXTENSION_BYTES {
            return Err(self.damaged("has an extended header of more than 8 MiB"));
        }
        self.begin(size);
        let mut data = Vec::new();
        let read = self
            .stream
            .by_ref()
            .take(size)
            .read_to_end(&mut data)
            .map_err(|error| self.broken(error))?;
        self.left -= read as u64;
        if self.left > 0 {
            return Err(self.damaged("is cut short"));
        }
        Ok(data)
    }

    fn begin(&mut self, size: u64) {
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK;
    }

    fn member(
        &mut self,
        header: &Header,
        size: u64,
        extensions: Extensions,
    ) -> Result<ArchiveEntry> {
        let records = if self.global.is_empty() {
            extensions.records.without_deletions()
        } else {
            let mut records = self.global.clone();
            records.overlay(extensions.records);
            records
        };
        let stored = records.number("size").unwrap_or(size);
        let path = records
            .get("GNU.sparse.name")
            .or_else(|| records.get("path"))
            .map(<[u8]>::to_vec)
            .or(extensions.long_name)
            .unwrap_or_else(|| header.path_bytes().into_owned());
        self.current.clone_from(&path);
        let target = records
            .get("linkpath")
            .map(<[u8]>::to_vec)
            .or(extensions.long_link)
            .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned))
            .unwrap_or_default();
        let kind = self.kind(header, &path, target)?;
        let has_data = matches!(kind, EntryKind::File | EntryKind::Other(_));
        // Hard links in old archives declare a size, but have no data.
        self.begin(if has_data { stored } else { 0 });
        let mut entry = ArchiveEntry {
            path,
            mode: header
                .mode()
                .map_err(|_| self.damaged("has an unreadable mode"))?
                & 0o7777,
            uid: self.owner(&records, "uid", header.uid())?,
            gid: self.owner(&records, "gid", header.gid())?,
            modified: self.modified(&records, header)?,
            size: self.left,
            segments: None,
            xattrs: records.xattrs(),
            kind,
        };
        self.count(&entry)?;
        if entry.kind == EntryKind::File {
            self.holes(header, &records, &mut entry)?;
        }
        Ok(entry)
    }

    /// Adds an entry to the totals. Records of global headers count again for each member.
    fn count(&mut self, entry: &ArchiveEntry) -> Result<()> {
        let target = match &entry.kind {
            EntryKind::Symlink { target } | EntryKind::HardLink { target } => target.len(),
            _ => 0,
        };
        let names = entry.path.len() + target;
        add(
            &mut self.names,
            names,
            self.limits.names,
            "bytes of names and link targets",
        )?;
        if entry.xattrs.len() as u64 > self.limits.attributes_per_entry {
            return Err(self.damaged(&format!(
                "has more than {} extended attributes",
                self.limits.attributes_per_entry
            )));
        }
        let attributes = entry.xattrs.iter();
        let attributes = attributes
            .map(|(name, value)| name.as_bytes().len() + value.len())
            .sum();
        add(
            &mut self.attributes,
            attributes,
            self.limits.attributes,
            "bytes of extended attributes",
        )
    }

    fn kind(&self, header: &Header, path: &[u8], target: Vec<u8>) -> Result<EntryKind> {
        let device = || -> Result<(u32, u32)> {
            match (header.device_major(), header.device_minor()) {
                (Ok(Some(major)), Ok(Some(minor))) => Ok((major, minor)),
                _ => Err(self.damaged("has an unreadable device number")),
            }
        };
        Ok(match header.entry_type() {
            // Before ustar, a trailing slash was the only mark of a directory.
            EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => {
                EntryKind::Directory
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => EntryKind::File,
            EntryType::Directory => EntryKind::Directory,
            EntryType::Symlink => EntryKind::Symlink { target },
            EntryType::Link => EntryKind::HardLink { target },
            EntryType::Fifo => EntryKind::Fifo,
            EntryType::Char => {
                device().map(|(major, minor)| EntryKind::CharDevice { major, minor })?
            }
            EntryType::Block => {
                device().map(|(major, minor)| EntryKind::BlockDevice { major, minor })?
            }
            other => EntryKind::Other(other.as_byte()),
        })
    }

    fn owner(&self, records: &Records, keyword: &str, header: std::io::Result<u64>) -> Result<u32> {
        let id = records
            .number(keyword)
            .map_or(header, Ok)
            .map_err(|_| self.damaged("has an unreadable owner"))?;
        u32::try_from(id)
            .ok()
            .filter(|id| *id != u32::MAX)
            .ok_or_else(|| self.damaged(&format!("has an impossible {keyword} {id}")))
    }

    fn modified(&self, records: &Records, header: &Header) -> Result<Timespec> {
        if let Some(time) = records.get("mtime") {
            return parse_time(time).ok_or_else(|| self.damaged("has an unreadable time"));
        }
        let seconds = header
            .mtime()
            .map_err(|_| self.damaged("has an unreadable time"))?;
        // GNU tar writes a time before 1970 as a negative base-256 number of eight bytes.
        Ok(Timespec {
            tv_sec: seconds.cast_signed(),
            tv_nsec: 0,
        })
    }

    fn holes(
        &mut self,
        header: &Header,
        records: &Records,
        entry: &mut ArchiveEntry,
    ) -> Result<()> {
        let (segments, size) = if header.entry_type() == EntryType::GNUSparse {
            self.old_map(header)?
        } else {
            match SparseForm::of(records).map_err(|why| self.damaged(why))? {
                None => return Ok(()),
                Some(SparseForm::Records { segments, size }) => (segments, size),
                Some(SparseForm::InData { size }) => {
                    let map = read_map(&mut self.stream.by_ref().take(self.left));
                    let Some((segments, read)) = map.map_err(|error| self.broken(error))? else {
                        return Err(self.damaged("has a damaged sparse map"));
                    };
                    self.left -= read;
                    (segments, size)
                }
            }
        };
        if !is_sound(&segments, size, self.left) {
            return Err(self.damaged("has a sparse map that does not fit its data"));
        }
        (entry.size, entry.segments) = (size, Some(segments));
        Ok(())
    }

    /// Reads the sparse map of the old GNU format, which continues in extension blocks.
    fn old_map(&mut self, header: &Header) -> Result<(Vec<Segment>, u64)> {
        let Some(gnu) = header.as_gnu() else {
            return Err(self.damaged("has a sparse map outside the GNU format"));
        };
        let size = gnu
            .real_size()
            .map_err(|_| self.damaged("has no real size"))?;
        let mut segments = Vec::new();
        let mut add = |sparse: &[tar::GnuSparseHeader]| -> Option<()> {
            for part in sparse.iter().filter(|part| !part.is_empty()) {
                segments.push(Segment {
                    offset: part.offset().ok()?,
                    length: part.length().ok()?,
                });
            }
            Some(())
        };
        let mut sound = add(&gnu.sparse).is_some();
        let mut more = gnu.is_extended();
        let mut blocks = 0u32;
        while more && sound {
            let mut block = GnuExtSparseHeader::new();
            self.stream
                .read_exact(block.as_mut_bytes())
                .map_err(|error| self.broken(error))?;
            sound = add(block.sparse()).is_some() && blocks < 50_000;
            more = block.is_extended();
            blocks += 1;
        }
        if sound {
            Ok((segments, size))
        } else {
            Err(self.damaged("has a damaged sparse map"))
        }
    }

    fn malformed(&self, message: &str) -> Error {
        let after = if self.current.is_empty() {
            String::new()
        } else {
            format!(", after entry `{}`", self.current.escape_ascii())
        };
        Error::new(ErrorCode::InvalidArgument, format!("{message}{after}"))
    }

    fn damaged(&self, why: &str) -> Error {
        Error::new(
            ErrorCode::InvalidArgument,
            format!("archive entry `{}` {why}", self.current.escape_ascii()),
        )
    }

    fn broken(&self, error: std::io::Error) -> Error {
        // A limit or a cancellation, which says itself what happened.
        let error = match error.downcast::<Error>() {
            Ok(error) => return error,
            Err(error) => error,
        };
        // Decompressors report damaged input with these kinds.
        let code = match error.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::InvalidData
            | ErrorKind::InvalidInput
            | ErrorKind::Other => ErrorCode::InvalidArgument,
            _ => ErrorCode::Internal,
        };
        let place = format!(
            "read the archive near entry `{}`",
            self.current.escape_ascii()
        );
        Error::new(code, place).with_source(error)
    }
}

/// Replaces empty number fields by zero. Some writers leave unknown numbers empty.
fn fill_empty_numbers(header: &mut Header) {
    fn fill(field: &mut [u8]) {
        if field.iter().all(|byte| matches!(byte, 0 | b' ')) {
            field[0] = b'0';
        }
    }
    let old = header.as_old_mut();
    for field in [&mut old.mode, &mut old.uid, &mut old.gid] {
        fill(field);
    }
    fill(&mut old.size);
    fill(&mut old.mtime);
    if let Some(ustar) = header.as_ustar_mut() {
        fill(&mut ustar.dev_major);
        fill(&mut ustar.dev_minor);
    } else if let Some(gnu) = header.as_gnu_mut() {
        fill(&mut gnu.dev_major);
        fill(&mut gnu.dev_minor);
    }
}

fn until_zero(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = name.iter().position(|byte| *byte == 0) {
        name.truncate(end);
    }
    name
}
