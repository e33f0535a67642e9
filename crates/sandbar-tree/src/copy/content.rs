//! Content of one file: by reflink where the file system supports it, else copied with its holes.

use std::{
    cell::Cell,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{self, SeekFrom},
    io::{self, Errno, Result},
};

/// Bytes per `copy_file_range` call, and so between two calls of the progress function.
const CHUNK: u64 = 32 << 20;

/// Copies file contents and remembers which calls the two file systems do not support.
#[derive(Debug, Default)]
pub(crate) struct ContentCopier {
    no_clone: Cell<bool>,
    no_range: Cell<bool>,
}

impl ContentCopier {
    /// Copies the content of `from` to the empty file `to`. `progress` gets the bytes copied since
    /// its last call.
    pub(crate) fn copy(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        size: u64,
        allocated: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        if !self.no_clone.get() {
            match fs::ioctl_ficlone(to, from) {
                Ok(()) => {
                    progress(size);
                    return Ok(());
                }
                Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) => {
                    self.no_clone.set(true);
                }
                // Only this file cannot be cloned (a swap file, other inode flags).
                Err(Errno::INVAL | Errno::TXTBSY | Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        if allocated >= size {
            return self.copy_range(from, to, 0, size, progress);
        }
        let mut offset = 0;
        while let Some((start, end)) = next_data(from, offset, size)? {
            self.copy_range(from, to, start, end, progress)?;
            offset = end;
        }
        fs::ftruncate(to, size)
    }

    fn copy_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        start: u64,
        end: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut offset = start;
        while offset < end && !self.no_range.get() {
            let (mut read_at, mut write_at) = (offset, offset);
            let length = usize::try_from((end - offset).min(CHUNK)).unwrap_or(usize::MAX);
            match fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), length) {
                // Some file systems return 0 for generated files: fall back to read and write.
                Ok(0) | Err(Errno::INVAL | Errno::PERM) => break,
                Ok(done) => {
                    offset += done as u64;
                    progress(done as u64);
                }
                Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) => self.no_range.set(true),
                Err(errno) => return Err(errno),
            }
        }
        read_write(from, to, offset, end, progress)
    }
}

fn read_write(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    start: u64,
    end: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    if start >= end {
        return Ok(());
    }
    let mut buffer = vec![0u8; 128 * 1024];
    let mut offset = start;
    while offset < end {
        let wanted = usize::try_from(end - offset)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let got = match io::pread(from, &mut buffer[..wanted], offset) {
            Ok(0) => return Ok(()),
            Ok(got) => got,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        write_all_at(to, &buffer[..got], offset)?;
        offset += got as u64;
        progress(got as u64);
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_all_at(to: impl AsFd, mut bytes: &[u8], mut offset: u64) -> Result<()> {
    while !bytes.is_empty() {
        match io::pwrite(&to, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns start and end of the next data at or after `offset`; `None` when only a hole is left.
pub(crate) fn next_data(file: impl AsFd, offset: u64, size: u64) -> Result<Option<(u64, u64)>> {
    if offset >= size {
        return Ok(None);
    }
    let start = match fs::seek(&file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // The file system does not support holes: all of it is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((offset, size))),
        Err(errno) => return Err(errno),
    };
    if start >= size {
        return Ok(None);
    }
    let end = fs::seek(&file, SeekFrom::Hole(start))?.min(size);
    Ok((end > start).then_some((start, end)))
}
