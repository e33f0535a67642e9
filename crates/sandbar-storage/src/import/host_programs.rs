//! Additional names of programs.
//!
//! Program directories are lent read-only, so these names are in a directory of the base that login
//! shells search last.

use std::{fs, os::unix::fs::symlink, path::Path};

use sandbar_core::{Error, Result};

use super::{host_files::set_mode, skeleton::make};

/// Common names, and the program they stand for. Debian has `python3`, but no `python`.
const NAMES: [(&str, &str); 1] = [("python", "python3")];

/// Program directories of a machine.
const PROGRAMS: [&str; 2] = ["usr/local/bin", "usr/bin"];

/// Directories to create for the names.
const OWN: [&str; 2] = ["var/lib/sandbar", "var/lib/sandbar/bin"];

const PROFILES: &str = "etc/profile.d";
const PROFILE: &str = "etc/profile.d/sandbar.sh";

/// Creates the names that the machine does not have.
pub(super) fn write(machine: &Path, rootfs: &Path) -> Result<()> {
    let find = |name: &str| {
        let places = PROGRAMS.iter().map(|place| Path::new(place).join(name));
        places.into_iter().find(|path| machine.join(path).exists())
    };
    let missing = NAMES.into_iter().filter(|(name, _)| find(name).is_none());
    let mut links = missing
        .filter_map(|(name, own)| Some((name, Path::new("/").join(find(own)?))))
        .peekable();
    if links.peek().is_none() {
        return Ok(());
    }
    for directory in OWN {
        make(rootfs, directory, 0o755, 0)?;
    }
    make(rootfs, PROFILES, 0o755, 0)?;
    let own = OWN[OWN.len() - 1];
    for (name, program) in links {
        symlink(&program, rootfs.join(own).join(name)).map_err(|error| {
            Error::io(
                format!("give `{}` the name `{name}`", program.display()),
                error,
            )
        })?;
    }
    let profile = rootfs.join(PROFILE);
    fs::write(&profile, format!("PATH=\"$PATH:/{own}\"\n"))
        .map_err(|error| Error::io(format!("write `/{PROFILE}` of the base"), error))?;
    set_mode(&profile, 0o644)
}
