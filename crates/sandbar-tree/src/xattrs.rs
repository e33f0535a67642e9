//! Extended attributes of open files, and of entries that cannot be opened.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, AsRawFd},
};

use rustix::{
    fs::{self, XattrFlags},
    io::{Errno, Result},
};

/// Entry whose attributes are read and written.
#[derive(Clone, Copy, Debug)]
pub enum XattrTarget<'a, D> {
    Open(D),
    /// Symbolic link, pipe or device, by its name in a directory; links are not followed.
    Named(D, &'a CStr),
}

impl<D: AsFd> XattrTarget<'_, D> {
    /// The kernel has no `setxattrat` before 6.13, so a name in an open directory goes through
    /// `/proc`.
    fn path(directory: &D, name: &CStr) -> Result<CString> {
        let mut path = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
        path.extend_from_slice(name.to_bytes());
        CString::new(path).map_err(|_| Errno::INVAL)
    }

    /// Every attribute, in the order of the file system. Empty where attributes are unknown.
    pub fn list(&self) -> Result<Vec<CString>> {
        let mut buffer = [0u8; 1024];
        let listing = match self.list_into(&mut buffer) {
            Ok(length) => buffer[..length].to_vec(),
            Err(Errno::RANGE) => {
                // 64 KiB is the most the kernel hands out.
                let mut large = vec![0u8; 64 * 1024];
                let length = self.list_into(&mut large)?;
                large.truncate(length);
                large
            }
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(errno) => return Err(errno),
        };
        listing
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| CString::new(name).map_err(|_| Errno::INVAL))
            .collect()
    }

    fn list_into(&self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Open(fd) => fs::flistxattr(fd, buffer),
            Self::Named(directory, name) => fs::llistxattr(Self::path(directory, name)?, buffer),
        }
    }

    pub fn get(&self, attribute: &CStr) -> Result<Vec<u8>> {
        let mut buffer = vec![0u8; 256];
        loop {
            let got = match self {
                Self::Open(fd) => fs::fgetxattr(fd, attribute, &mut buffer[..]),
                Self::Named(directory, name) => {
                    fs::lgetxattr(Self::path(directory, name)?, attribute, &mut buffer[..])
                }
            };
            match got {
                Ok(length) => {
                    buffer.truncate(length);
                    return Ok(buffer);
                }
                Err(Errno::RANGE) if buffer.len() < 64 * 1024 => buffer.resize(64 * 1024, 0),
                Err(errno) => return Err(errno),
            }
        }
    }

    pub fn set(&self, attribute: &CStr, value: &[u8]) -> Result<()> {
        match self {
            Self::Open(fd) => fs::fsetxattr(fd, attribute, value, XattrFlags::empty()),
            Self::Named(directory, name) => fs::lsetxattr(
                Self::path(directory, name)?,
                attribute,
                value,
                XattrFlags::empty(),
            ),
        }
    }

    pub fn remove(&self, attribute: &CStr) -> Result<()> {
        match self {
            Self::Open(fd) => fs::fremovexattr(fd, attribute),
            Self::Named(directory, name) => {
                fs::lremovexattr(Self::path(directory, name)?, attribute)
            }
        }
    }
}

/// Returns whether overlayfs keeps internal state in this attribute, valid in one layer only.
pub fn is_overlay_internal(attribute: &CStr) -> bool {
    let name = attribute.to_bytes();
    name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.")
}
