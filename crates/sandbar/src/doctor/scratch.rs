//! Corners to try things in.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;

use crate::mount_namespace;

/// The directory itself when it exists, else the nearest one above it.
pub(crate) fn nearest_directory(path: &Path) -> PathBuf {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// A directory that is removed when it goes out of scope.
pub(crate) fn directory_in(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(".sandbar-doctor-").tempdir_in(parent)
}

/// Runs `probe` on a thread in a private mount namespace; what it mounts is gone afterwards.
pub(crate) fn in_private_mounts<T: Send>(probe: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let probing = scope.spawn(|| {
            mount_namespace::enter_private().map_err(|error| error.chain())?;
            probe()
        });
        probing.join().unwrap_or_else(|_| Err("the probe itself failed".to_owned()))
    })
}

/// Runs a program to its end; its output when it succeeds, its complaint when it does not.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let path = find_program(program).ok_or_else(|| format!("`{program}` is not installed"))?;
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("`{program}` could not be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("`{program}` failed: {}", last.trim()))
}

/// Where a program is: on the PATH, or where administration programs are when the PATH leaves them out.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}
