//! Removal of entries from the tree.

use std::path::Path;

use rustix::io::Errno;
use sandbar_core::{Error, ErrorCode, Result, shown_path};

use super::tree::{SessionTree, failure};
use crate::remove::remove_at;

/// Attempts to remove a directory while processes of the session create files in it.
const MAX_ATTEMPTS: usize = 16;

impl SessionTree {
    /// Removes `path` and everything below it. Symbolic links are removed, not followed. A missing
    /// path is success.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let place = match self.named(path) {
            Ok(place) => place,
            Err(error) if error.code() == ErrorCode::FileNotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let _acting = self.act()?;
        let mut outcome = Ok(());
        for _ in 0..MAX_ATTEMPTS {
            outcome = remove_at(&place.directory, &place.name);
            match outcome {
                // A process of the session changed the tree concurrently.
                Err(
                    Errno::NOENT
                    | Errno::NOTEMPTY
                    | Errno::EXIST
                    | Errno::NOTDIR
                    | Errno::ISDIR
                    | Errno::LOOP
                    | Errno::STALE,
                ) => {}
                _ => break,
            }
        }
        outcome.map_err(|errno| match errno {
            Errno::BUSY => Error::invalid(
                "path",
                format!("`{}` is a mount point, or contains one", shown_path(path)),
            )
            .with_hint("remove the entries around the mount point one by one"),
            Errno::NOTEMPTY | Errno::EXIST => Error::new(
                ErrorCode::InvalidState,
                format!(
                    "processes of the session create files in `{}` during its removal",
                    shown_path(path)
                ),
            )
            .with_field("path")
            .with_hint("stop these processes first"),
            errno => failure(path, errno),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::symlink,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    #[test]
    fn remove_of_a_directory_being_filled_succeeds() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("dir/below")).unwrap();
        let tree = SessionTree::open(root, None).unwrap();
        let (busy, done) = (root.join("dir/below"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let filler = scope.spawn(|| {
                let mut made = 0;
                while made < 2000 && !done.load(Ordering::Relaxed) {
                    // Fails once the directory is gone.
                    let _ = fs::create_dir(busy.join(format!("d{made}")));
                    let _ = symlink("/", busy.join(format!("l{made}")));
                    made += 1;
                }
            });
            while let Err(error) = tree.remove(Path::new("/dir")) {
                assert_eq!(error.code(), ErrorCode::InvalidState, "{}", error.chain());
            }
            done.store(true, Ordering::Relaxed);
            filler.join().unwrap();
        });
        assert!(!root.join("dir").exists());
    }
}
