//! A file of the host that somebody else may change at any time.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// Tells one state of a file from another.
type Stamp = (u64, u64, i64, i64);

/// What is in a file, read again when that has changed. A file that is not there is empty.
#[derive(Debug)]
pub(super) struct ChangingFile<T> {
    path: PathBuf,
    parse: fn(&str) -> T,
    latest: Mutex<Option<(Option<Stamp>, Arc<T>)>>,
}

impl<T> ChangingFile<T> {
    pub(super) const fn new(path: PathBuf, parse: fn(&str) -> T) -> Self {
        Self { path, parse, latest: Mutex::new(None) }
    }

    /// What is in it now. The files this is used for are small and in memory, so that reading them does not wait.
    pub(super) fn current(&self) -> Arc<T> {
        let stamp =
            fs::metadata(&self.path).ok().map(|facts| (facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()));
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, content)) = &*latest
            && *known == stamp
        {
            return Arc::clone(content);
        }
        // The stamp is older than the content: what changes in between is read again the next time.
        let text = fs::read(&self.path).unwrap_or_default();
        let content = Arc::new((self.parse)(&String::from_utf8_lossy(&text)));
        *latest = Some((stamp, Arc::clone(&content)));
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_has_changed() {
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
