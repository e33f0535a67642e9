//! Files of the host that other programs change at any time.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use sandbar_core::MutexExt as _;

/// Inode, size and modification time, which identify one state of a file.
type Stamp = (u64, u64, i64, i64);

/// Parsed content of a file, read again when the file has changed. A missing file counts as empty.
pub(crate) struct ChangingFile<T> {
    path: PathBuf,
    parse: fn(&str) -> T,
    latest: Mutex<Option<(Option<Stamp>, Arc<T>)>>,
}

impl<T> ChangingFile<T> {
    pub(crate) const fn new(path: PathBuf, parse: fn(&str) -> T) -> Self {
        Self {
            path,
            parse,
            latest: Mutex::new(None),
        }
    }

    /// Returns the current content. These files are small and in memory, so reading them does not
    /// block for long.
    pub(crate) fn current(&self) -> Arc<T> {
        let stamp = fs::metadata(&self.path)
            .ok()
            .map(|facts| (facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()));
        let mut latest = self.latest.lock_unpoisoned();
        if let Some((known, content)) = &*latest
            && *known == stamp
        {
            return Arc::clone(content);
        }
        // The stamp is older than the content: a change between the two is read the next time.
        let text = fs::read(&self.path).unwrap_or_default();
        let content = Arc::new((self.parse)(&String::from_utf8_lossy(&text)));
        *latest = Some((stamp, Arc::clone(&content)));
        content
    }
}

impl<T> fmt::Debug for ChangingFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChangingFile").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = ChangingFile::new(path.clone(), str::len);
        assert_eq!(*file.current(), 0);
        fs::write(&path, "abc").unwrap();
        assert_eq!(*file.current(), 3);
        fs::write(&path, "abcd").unwrap();
        assert_eq!(*file.current(), 4);
        fs::remove_file(&path).unwrap();
        assert_eq!(*file.current(), 0);
    }
}
