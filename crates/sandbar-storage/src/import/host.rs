//! The `host` base: programs and libraries of this machine, lent read-only, with a new `/etc`,
//! `/var` and users around them.
//!
//! Invariant: it contains no personal data and no secrets. `/home`, `/root` and `/var` are new,
//! `/etc` is built from an allow list, and the users are the sandbox's own.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use sandbar_core::{Error, Result};

use super::{
    base::{Filled, own_layer},
    host_files, host_programs, host_users,
    skeleton::{USER, make},
};
use crate::{BaseLayer, LayerDirectory};

/// Directories to lend. Symbolic links among them (`/bin -> usr/bin`) are recreated.
const LENT: [&str; 8] = [
    "usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
];

/// Other directories of a system, with modes; empty in a new sandbox.
const DIRECTORIES: [(&str, u32); 19] = [
    ("etc", 0o755),
    ("home", 0o755),
    ("root", 0o700),
    ("tmp", 0o1777),
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("mnt", 0o755),
    ("media", 0o755),
    ("srv", 0o755),
    ("proc", 0o555),
    ("sys", 0o555),
    ("dev", 0o755),
    ("var", 0o755),
    ("var/tmp", 0o1777),
    ("var/lib", 0o755),
    ("var/cache", 0o755),
    ("var/log", 0o755),
    ("var/spool", 0o755),
    ("var/opt", 0o755),
];

const LINKS: [(&str, &str); 3] = [
    ("var/run", "/run"),
    ("var/lock", "/run/lock"),
    ("etc/mtab", "../proc/self/mounts"),
];

/// Returns the directory lent to sandboxes that `path` lies in, links followed. It need not exist
/// yet.
pub fn lent_directory_of(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let (real, rest) = path
        .ancestors()
        .find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)))
        .unwrap_or_else(|| (path.clone(), Path::new("")));
    let real = real.join(rest);
    LENT.iter()
        .map(|name| Path::new("/").join(name))
        .find(|lent| {
            // Symbolic links among them lead to another lent directory.
            real.starts_with(lent) && !lent.is_symlink()
        })
}

/// Builds the part of the base that is not lent. `machine` is `/`, or a fake root in tests.
pub(super) fn fill(machine: &Path, rootfs: &Path) -> Result<Filled> {
    let mut layers = vec![own_layer()];
    for (path, mode) in DIRECTORIES {
        make(rootfs, path, mode, 0)?;
    }
    // Mode 0755, so that root of a sandbox can enter it: without capabilities, root has only the
    // permissions of "other" on a directory of another user.
    make(rootfs, "home/user", 0o755, USER)?;
    for (path, target) in LINKS {
        link(rootfs, path, Path::new(target))?;
    }
    for name in LENT {
        let path = machine.join(name);
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_symlink() {
            let target = std::fs::read_link(&path)
                .map_err(|error| Error::io(format!("read link `{}`", path.display()), error))?;
            link(rootfs, name, &target)?;
        } else if metadata.is_dir() {
            make(rootfs, name, 0o755, 0)?;
            let mount_point = PathBuf::from("/").join(name);
            layers.push(BaseLayer {
                mount_point,
                directory: LayerDirectory::Host(path),
            });
        }
    }
    if layers.len() == 1 {
        return Err(Error::internal(format!(
            "`{}` has no program directories to lend",
            machine.display()
        )));
    }
    host_files::copy_allowed(&machine.join("etc"), &rootfs.join("etc"))?;
    host_files::write_own(&rootfs.join("etc"))?;
    host_users::write(machine, rootfs)?;
    host_programs::write(machine, rootfs)?;
    Ok(Filled {
        layers,
        ..Filled::own(Vec::new(), 0)
    })
}

fn link(rootfs: &Path, path: &str, target: &Path) -> Result<()> {
    symlink(target, rootfs.join(path))
        .map_err(|error| Error::io(format!("make link `/{path}` of the base"), error))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// Returns every path below a directory with its content; symbolic links are not followed.
    fn everything(root: &Path) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut pending = vec![root.to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                let content = if kind.is_file() {
                    fs::read(entry.path()).unwrap()
                } else {
                    Vec::new()
                };
                let path = entry.path().strip_prefix(root).unwrap().to_owned();
                found.insert(path, String::from_utf8_lossy(&content).into_owned());
                if kind.is_dir() {
                    pending.push(entry.path());
                }
            }
        }
        found
    }

    fn put(machine: &Path, path: &str, mode: u32, content: &str) {
        let path = machine.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Fake machine with secrets in every known location.
    fn machine(root: &Path) {
        const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nSECRET\n";
        // As in Debian.
        const OPENSSL: &str = "[ req ]\ndistinguished_name = req_distinguished_name\n# input_password = secret\n\
            challengePassword\t\t= A challenge password\n[insta]\nsecret = pass:insta # can be used for both\n\
            [pbm]\nsecret = $insta::secret # pass:insta\n[signature]\nsecret = # disable PBM\n";
        for (path, mode, content) in [
            ("usr/bin/tool", 0o755, "#!/bin/sh\n"),
            ("opt/vendor/tool", 0o755, "x"),
            ("lib64/ld.so", 0o755, "x"),
            ("home/alice/.ssh/id_rsa", 0o600, KEY),
            ("root/.aws/credentials", 0o600, "SECRET"),
            ("root/.bashrc", 0o644, "export TOKEN=SECRET\n"),
            ("var/lib/app/data", 0o644, "SECRET"),
            ("etc/shadow", 0o640, "root:SECRET:1::::::"),
            ("etc/gshadow", 0o640, "SECRET"),
            (
                "etc/passwd",
                0o644,
                "alice:x:1000:1000:SECRET:/home/alice:/bin/sh\n",
            ),
            ("etc/group", 0o644, "SECRET:x:1000:alice\n"),
            ("etc/hosts", 0o644, "10.0.0.1 SECRET\n"),
            ("etc/hostname", 0o644, "SECRET\n"),
            ("etc/resolv.conf", 0o644, "search SECRET\n"),
            ("etc/machine-id", 0o444, "SECRET\n"),
            ("etc/sudoers", 0o440, "SECRET"),
            ("etc/ssh/ssh_host_rsa_key", 0o600, KEY),
            ("etc/docker/daemon.json", 0o644, "SECRET"),
            ("etc/kubernetes/admin.conf", 0o600, "SECRET"),
            (
                "etc/systemd/system/app.service",
                0o644,
                "Environment=SECRET",
            ),
            ("etc/cron.d/job", 0o644, "SECRET"),
            ("etc/environment", 0o644, "API_TOKEN=SECRET\n"),
            ("etc/gitconfig", 0o644, "[http] extraheader = SECRET\n"),
            ("etc/nsswitch.conf", 0o644, "passwd: SECRET\n"),
            ("etc/ssl/private/server.key", 0o600, KEY),
            ("etc/ssl/certs/leaked.pem", 0o644, KEY),
            (
                "etc/ssl/certs/ca.pem",
                0o644,
                "-----BEGIN CERTIFICATE-----\n",
            ),
            ("etc/ssl/openssl.cnf", 0o644, OPENSSL),
            (
                "etc/pki/tls/openssl.cnf",
                0o644,
                "[ req ]\noutput_password = SECRET # pass:insta\n",
            ),
            ("etc/python3/debian_config", 0o644, "[DEFAULT]\n"),
            ("etc/python3/api_token", 0o644, "SECRET"),
            ("etc/java-17/management/jmxremote.password", 0o644, "SECRET"),
            ("etc/java-17/closed.properties", 0o640, "SECRET"),
            (
                "etc/java-17/java.security",
                0o644,
                "securerandom.source=file:/dev/random\n",
            ),
            ("etc/bash.bashrc", 0o644, "export GITHUB_TOKEN = SECRET\n"),
            ("etc/profile", 0o644, "# password=none\nPATH=/usr/bin\n"),
            ("etc/ld.so.cache", 0o644, "cache"),
            ("etc/matplotlibrc", 0o644, "backend: agg\n"),
            ("etc/R/ldpaths", 0o644, "R_JAVA_LD_LIBRARY_PATH\n"),
            ("etc/R/Renviron.site", 0o644, "GITHUB_PAT=SECRET\n"),
        ] {
            put(root, path, mode, content);
        }
        fs::create_dir_all(root.join("etc/alternatives")).unwrap();
        symlink("/usr/bin/tool", root.join("etc/alternatives/editor")).unwrap();
        symlink("/home/alice/bin/tool", root.join("etc/alternatives/leak")).unwrap();
        symlink("usr/bin", root.join("bin")).unwrap();
    }

    #[test]
    fn path_below_a_lent_directory_is_recognised_through_links() {
        let scratch = tempfile::tempdir().unwrap();
        let link = scratch.path().join("link");
        symlink("/usr/local", &link).unwrap();
        for inside in [
            Path::new("/usr/local/sandbar/data"),
            &link.join("data/not/there"),
            Path::new("/usr"),
        ] {
            assert_eq!(
                lent_directory_of(inside),
                Some(PathBuf::from("/usr")),
                "{}",
                inside.display()
            );
        }
        for outside in [
            Path::new("/var/lib/sandbar"),
            Path::new("/usrlocal"),
            scratch.path(),
            Path::new("/"),
        ] {
            assert_eq!(lent_directory_of(outside), None, "{}", outside.display());
        }
    }

    #[test]
    fn nothing_personal_or_secret_is_in_a_base_from_this_machine() {
        let scratch = tempfile::tempdir().unwrap();
        let (host, rootfs) = (
            scratch.path().join("machine"),
            scratch.path().join("rootfs"),
        );
        machine(&host);
        fs::create_dir(&rootfs).unwrap();
        let filled = fill(&host, &rootfs).unwrap();
        let found = everything(&rootfs);
        for (path, content) in &found {
            assert!(
                !content.contains("SECRET") && !content.contains("PRIVATE KEY"),
                "{}",
                path.display()
            );
        }
        for gone in [
            "etc/gshadow",
            "etc/ssh",
            "etc/machine-id",
            "etc/resolv.conf",
            "etc/ssl/private",
            "etc/sudoers",
        ] {
            assert!(!found.contains_key(Path::new(gone)), "{gone}");
        }
        let of_root: Vec<_> = found
            .keys()
            .filter(|path| path.parent() == Some(Path::new("root")))
            .collect();
        assert_eq!(
            of_root,
            [Path::new("root/.bashrc"), Path::new("root/.profile")],
            "the base's own"
        );
        assert_eq!(fs::read_dir(rootfs.join("home")).unwrap().count(), 1);
        assert!(
            rootfs
                .join("etc/alternatives/leak")
                .symlink_metadata()
                .is_err()
        );
        let lent: Vec<_> = filled
            .layers
            .iter()
            .map(|layer| layer.mount_point.to_str().unwrap())
            .collect();
        assert_eq!(lent, ["/", "/usr", "/opt", "/lib64"]);
        assert!(filled.layers[1].directory == LayerDirectory::Host(host.join("usr")));
    }

    #[test]
    fn the_user_needs_no_password_where_the_machine_has_sudo() {
        let scratch = tempfile::tempdir().unwrap();
        let (host, rootfs) = (
            scratch.path().join("machine"),
            scratch.path().join("rootfs"),
        );
        machine(&host);
        put(&host, "usr/bin/sudo", 0o4755, "");
        fs::create_dir(&rootfs).unwrap();
        fill(&host, &rootfs).unwrap();
        let sudoers = rootfs.join("etc/sudoers");
        assert!(
            fs::read_to_string(&sudoers)
                .unwrap()
                .contains("\nuser ALL=(ALL:ALL) NOPASSWD: ALL\n")
        );
        assert_eq!(
            fs::metadata(&sudoers).unwrap().permissions().mode() & 0o7777,
            0o440
        );
        assert!(rootfs.join("etc/pam.d/sudo").is_file());
    }

    #[test]
    fn a_python_that_has_a_number_in_its_name_is_found_without_it() {
        let scratch = tempfile::tempdir().unwrap();
        let host = scratch.path().join("machine");
        machine(&host);
        put(&host, "usr/bin/python3", 0o755, "");
        let base = |name: &str| {
            let rootfs = scratch.path().join(name);
            fs::create_dir(&rootfs).unwrap();
            fill(&host, &rootfs).unwrap();
            rootfs
        };
        let rootfs = base("one");
        let named = rootfs.join("var/lib/sandbar/bin/python");
        assert_eq!(fs::read_link(named).unwrap(), Path::new("/usr/bin/python3"));
        let profile = rootfs.join("etc/profile.d/sandbar.sh");
        assert_eq!(
            fs::read_to_string(&profile).unwrap(),
            "PATH=\"$PATH:/var/lib/sandbar/bin\"\n"
        );
        assert_eq!(
            fs::metadata(&profile).unwrap().permissions().mode() & 0o044,
            0o044
        );
        put(&host, "usr/local/bin/python", 0o755, "");
        assert!(
            !base("other").join("var/lib/sandbar").exists(),
            "the machine's own is found as it is"
        );
    }

    #[test]
    fn a_base_from_this_machine_has_what_programs_need() {
        let scratch = tempfile::tempdir().unwrap();
        let (host, rootfs) = (
            scratch.path().join("machine"),
            scratch.path().join("rootfs"),
        );
        machine(&host);
        fs::create_dir(&rootfs).unwrap();
        fill(&host, &rootfs).unwrap();
        let found = everything(&rootfs);
        for (path, content) in [
            ("etc/ld.so.cache", "cache"),
            ("etc/ssl/certs/ca.pem", "CERTIFICATE"),
            ("etc/ssl/openssl.cnf", "distinguished_name"),
            ("etc/python3/debian_config", "DEFAULT"),
            ("etc/matplotlibrc", "agg"),
            ("etc/R/ldpaths", "R_JAVA"),
            ("etc/java-17/java.security", "securerandom"),
            ("etc/profile", "PATH"),
            ("etc/passwd", "user:x:1000:1000:user:/home/user:/bin/bash"),
            ("etc/hostname", "sandbar"),
        ] {
            assert!(found[Path::new(path)].contains(content), "{path}");
        }
        assert_eq!(
            fs::read_link(rootfs.join("bin")).unwrap(),
            Path::new("usr/bin")
        );
        assert_eq!(
            fs::read_link(rootfs.join("etc/alternatives/editor")).unwrap(),
            Path::new("/usr/bin/tool")
        );
        let mode = |path: &str| {
            fs::symlink_metadata(rootfs.join(path))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777
        };
        assert_eq!(
            (
                mode("tmp"),
                mode("var/tmp"),
                mode("root"),
                mode("home/user")
            ),
            (0o1777, 0o1777, 0o700, 0o755)
        );
        let modes = (
            mode("etc/shadow"),
            mode("home/user/.bashrc"),
            mode("root/.bashrc"),
        );
        assert_eq!(modes, (0o600, 0o644, 0o644));
        assert!(
            found[Path::new("etc/shadow")].contains("user:!:"),
            "no account has a password"
        );
    }
}
