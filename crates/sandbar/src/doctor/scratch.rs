//! Scratch directories, private mount namespaces and child processes for probes.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use sandbar_storage::enter_private_mounts;
use tempfile::TempDir;

/// Returns the directory itself if it exists, else its nearest existing ancestor.
pub(crate) fn nearest_directory(path: &Path) -> PathBuf {
    path.ancestors()
        .find(|ancestor| ancestor.is_dir())
        .unwrap_or(Path::new("/"))
        .to_owned()
}

/// Creates a directory that is removed on drop.
pub(crate) fn directory_in(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(".sandbar-doctor-")
        .tempdir_in(parent)
}

/// Runs `probe` on a thread in a private mount namespace, with which its mounts end.
pub(crate) fn in_private_mounts<T: Send>(
    probe: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let probing = scope.spawn(|| {
            enter_private_mounts().map_err(|error| error.chain())?;
            probe()
        });
        probing
            .join()
            .unwrap_or_else(|_| Err("the probe panicked".to_owned()))
    })
}

/// Runs a program; returns its stdout, or an error with the last line of its stderr.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let path = find_program(program).ok_or_else(|| format!("`{program}` is not installed"))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "runs the tools that the doctor probes"
    )]
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("`{program}` could not be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no message");
    Err(format!("`{program}` failed: {}", last.trim()))
}

/// Returns the path of a program: from `PATH`, or from the sbin directories.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}
