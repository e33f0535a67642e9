//! Containers an earlier host left.
//!
//! A container ends by itself when its host does, since its init reads the end of its socket, and whatever does not is
//! ended with the cgroups of the host. What remains are directories, and processes on machines without cgroups.

use std::{fs, io, path::Path};

use super::{bundle::Bundle, host_process::HostProcess, probe};

/// Ends and removes everything below `directory`, which holds a directory for each container. What cannot be removed is
/// named, and in nobody's way.
pub(super) fn clear(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let outcome = if probe::is_ours(&path) { probe::remove(&path) } else { end(&Bundle::left_at(path.clone())) };
        if let Err(error) = outcome {
            tracing::warn!(directory = %path.display(), %error, "could not remove what an earlier host left");
        }
    }
    Ok(())
}

fn end(bundle: &Bundle) -> io::Result<()> {
    for process in bundle.processes().into_iter().filter_map(HostProcess::find) {
        tracing::info!(pid = process.pid(), "ending a container an earlier host left running");
        process.end()?;
    }
    bundle.remove()
}
