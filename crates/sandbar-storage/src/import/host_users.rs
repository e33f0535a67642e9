//! Users of the `host` base: root, one ordinary user with a home, and the configuration of `su` and
//! `sudo`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

use rustix::process::geteuid;
use sandbar_core::{Error, Result};

use super::skeleton::USER;

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/bash
user:x:1000:1000:user:/home/user:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";

const GROUP: &str = "\
root:x:0:
tty:x:5:
sudo:x:27:user
shadow:x:42:
user:x:1000:
nogroup:x:65534:
";

/// No account has a password.
const SHADOW: &str = "\
root:*:19000:0:99999:7:::
user:!:19000:0:99999:7:::
nobody:*:19000:0:99999:7:::
";

/// PAM configuration of programs that change users; root needs no password.
const PAM_OTHER: &str = "\
auth required pam_unix.so
account required pam_unix.so
password required pam_unix.so
session required pam_permit.so
";
const PAM_SU: &str = "\
auth sufficient pam_rootok.so
auth required pam_unix.so
account sufficient pam_rootok.so
account required pam_unix.so
session required pam_permit.so
";

const SUDOERS: &str = "\
Defaults env_reset
Defaults secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"
root ALL=(ALL:ALL) NOPASSWD: ALL
user ALL=(ALL:ALL) NOPASSWD: ALL
";

const PROFILE: &str = "\
# Read by login shells.
if [ -n \"$BASH_VERSION\" ] && [ -f \"$HOME/.bashrc\" ]; then
    . \"$HOME/.bashrc\"
fi
for directory in \"$HOME/bin\" \"$HOME/.local/bin\"; do
    if [ -d \"$directory\" ]; then
        PATH=\"$directory:$PATH\"
    fi
done
unset directory
";

const BASHRC: &str = "\
# Read by interactive shells.
case $- in
*i*) ;;
*) return ;;
esac
HISTCONTROL=ignoreboth
HISTSIZE=1000
HISTFILESIZE=2000
shopt -s histappend checkwinsize
PS1='\\u@\\h:\\w\\$ '
alias ls='ls --color=auto'
alias grep='grep --color=auto'
";

const BASH_LOGOUT: &str = "# Read when a login shell ends.\n";

/// Content, mode and owner of a file.
type OwnFile = (&'static str, u32, u32, &'static str);

const FILES: [OwnFile; 12] = [
    ("etc/passwd", 0o644, 0, PASSWD),
    ("etc/group", 0o644, 0, GROUP),
    ("etc/shadow", 0o600, 0, SHADOW),
    ("etc/pam.d/other", 0o644, 0, PAM_OTHER),
    ("etc/pam.d/su", 0o644, 0, PAM_SU),
    ("etc/pam.d/su-l", 0o644, 0, PAM_SU),
    ("etc/pam.d/runuser", 0o644, 0, PAM_SU),
    ("root/.profile", 0o644, 0, PROFILE),
    ("root/.bashrc", 0o644, 0, BASHRC),
    ("home/user/.profile", 0o644, USER, PROFILE),
    ("home/user/.bashrc", 0o644, USER, BASHRC),
    ("home/user/.bash_logout", 0o644, USER, BASH_LOGOUT),
];

/// Files for machines with `sudo`: the ordinary user needs no password.
const SUDO_FILES: [OwnFile; 2] = [
    ("etc/sudoers", 0o440, 0, SUDOERS),
    ("etc/pam.d/sudo", 0o644, 0, PAM_OTHER),
];

/// Writes the files below the tree under construction, whose directories exist.
pub(super) fn write(machine: &Path, rootfs: &Path) -> Result<()> {
    let has_sudo = machine.join("usr/bin/sudo").exists();
    let pam = rootfs.join("etc/pam.d");
    fs::create_dir_all(&pam)
        .map_err(|error| Error::io(format!("make directory `{}`", pam.display()), error))?;
    FILES
        .iter()
        .chain(SUDO_FILES.iter().filter(|_| has_sudo))
        .try_for_each(|file| write_one(rootfs, file))
}

fn write_one(rootfs: &Path, &(name, mode, owner, content): &OwnFile) -> Result<()> {
    let path = rootfs.join(name);
    let failed = |error| Error::io(format!("write `/{name}` of the base"), error);
    fs::write(&path, content).map_err(failed)?;
    if owner != 0 && geteuid().is_root() {
        chown(&path, Some(owner), Some(owner)).map_err(failed)?;
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(failed)
}
