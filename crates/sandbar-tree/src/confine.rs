//! `openat2` below a root, retried.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::{Errno, Result},
    path::Arg,
};

/// Attempts before `EAGAIN` is returned to the caller.
const MAX_ATTEMPTS: usize = 1000;

/// Opens `path` below `root` with `openat2`; `resolve` says how it is confined.
///
/// A path may contain `..`, itself or through a symbolic link. While the kernel resolves one, any
/// rename or mount on the machine makes it fail with `EAGAIN`, because it cannot prove that the
/// path stayed below the root. The call is then repeated.
pub fn open_confined(
    root: impl AsFd,
    path: impl Arg + Copy,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd> {
    let root = root.as_fd();
    let mut attempts = 0;
    loop {
        match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if attempts < MAX_ATTEMPTS => attempts += 1,
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, openat};

    use super::*;

    #[test]
    fn open_confined_during_renames_elsewhere_succeeds() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("root/a/b")).unwrap();
        std::fs::write(scratch.path().join("root/target"), "x").unwrap();
        std::fs::write(scratch.path().join("0"), "x").unwrap();
        let root = openat(
            CWD,
            scratch.path().join("root"),
            OFlags::PATH | OFlags::DIRECTORY,
            Mode::empty(),
        )
        .unwrap();
        let path = format!("a/b/{}target", "../".repeat(40));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let names = [scratch.path().join("0"), scratch.path().join("1")];
                while !done.load(Ordering::Relaxed) {
                    std::fs::rename(&names[0], &names[1]).unwrap();
                    std::fs::rename(&names[1], &names[0]).unwrap();
                }
            });
            let outcomes: Vec<_> = (0..5000)
                .map(|_| {
                    open_confined(&root, path.as_str(), OFlags::RDONLY, ResolveFlags::IN_ROOT)
                        .map(drop)
                })
                .collect();
            done.store(true, Ordering::Relaxed);
            assert_eq!(outcomes.into_iter().find(std::result::Result::is_err), None);
        });
    }
}
