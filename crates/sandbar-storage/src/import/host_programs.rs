//! Programs that people call by another name than this machine does.
//!
//! Directories of programs are lent and stay as they are, so the other names have a directory of their own, where shells
//! that somebody logs into look last.

use std::{fs, os::unix::fs::symlink, path::Path};

use sandbar_core::{Error, Result};

use super::{host_files::set_mode, skeleton::make};

/// Names people use, and the program that is meant. Debian has no `python` but the one with the number.
const NAMES: [(&str, &str); 1] = [("python", "python3")];

/// Where machines have programs.
const PROGRAMS: [&str; 2] = ["usr/local/bin", "usr/bin"];

/// Where the other names are, below one another.
const OWN: [&str; 2] = ["var/lib/sandbar", "var/lib/sandbar/bin"];

const PROFILES: &str = "etc/profile.d";
const PROFILE: &str = "etc/profile.d/sandbar.sh";

/// Gives the programs of the machine the names it does not have itself.
pub(super) fn write(machine: &Path, rootfs: &Path) -> Result<()> {
    let find = |name: &str| {
        let places = PROGRAMS.iter().map(|place| Path::new(place).join(name));
        places.into_iter().find(|path| machine.join(path).exists())
    };
    let missing = NAMES.into_iter().filter(|(name, _)| find(name).is_none());
    let mut links = missing.filter_map(|(name, own)| Some((name, Path::new("/").join(find(own)?)))).peekable();
    if links.peek().is_none() {
        return Ok(());
    }
    for directory in OWN {
        make(rootfs, directory, 0o755, 0)?;
    }
    make(rootfs, PROFILES, 0o755, 0)?;
    let own = OWN[OWN.len() - 1];
    for (name, program) in links {
        symlink(&program, rootfs.join(own).join(name))
            .map_err(|error| Error::io(format!("give `{}` the name `{name}`", program.display()), error))?;
    }
    let profile = rootfs.join(PROFILE);
    fs::write(&profile, format!("PATH=\"$PATH:/{own}\"\n"))
        .map_err(|error| Error::io(format!("write `/{PROFILE}` of the base"), error))?;
    set_mode(&profile, 0o644)
}
