//! Removal of containers that an earlier host left.
//!
//! A container ends with its host, because its init reads end of file on its socket. Otherwise it
//! is killed with the cgroups of the host. What remains are directories, and processes on machines
//! without cgroups.

use std::{fs, io, path::Path};

use super::{bundle::Bundle, host_process::HostProcess, probe};

/// Destroys all containers below `directory`. Logs those that cannot be removed, and continues: new
/// containers have other names.
pub(super) fn clear(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let outcome = if probe::is_probe_directory(&path) {
            probe::remove(&path)
        } else {
            destroy(&Bundle::left_at(path.clone()))
        };
        if let Err(error) = outcome {
            tracing::warn!(directory = %path.display(), %error, "could not remove a container of an earlier host");
        }
    }
    Ok(())
}

fn destroy(bundle: &Bundle) -> io::Result<()> {
    for process in bundle.processes().into_iter().filter_map(HostProcess::find) {
        tracing::info!(
            pid = process.pid(),
            "killing a container of an earlier host"
        );
        process.kill()?;
    }
    bundle.remove()
}
