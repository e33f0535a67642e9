//! The `/etc` of the `host` base: files that programs need to start.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Component, Path},
};

use sandbar_core::{Error, Result};

/// Allow list of entries below `/etc`; a trailing `*` matches any suffix. Everything else is left
/// out.
const ALLOWED: &[&str] = &[
    "ImageMagick-*",
    "R/Makeconf",
    "R/Renviron",
    "R/ldpaths",
    "R/repositories",
    "alpine-release",
    "alternatives",
    "bash.bashrc",
    "bash_completion",
    "bash_completion.d",
    "bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "ethertypes",
    "fedora-release",
    "fonts",
    "gai.conf",
    "ghostscript",
    "groff",
    "gtk-3.0",
    "host.conf",
    "inputrc",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "matplotlibrc",
    "mime.types",
    "nanorc",
    "netconfig",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "profile",
    "protocols",
    "python3*",
    "redhat-release",
    "rpc",
    "sensors3.conf",
    "services",
    "sgml",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "system-release",
    "terminfo",
    "timezone",
    "vim",
    "xml",
];

/// Words in a file name that exclude the file, wherever it is.
const FORBIDDEN: &[&str] = &[
    "shadow",
    "passwd",
    "password",
    "secret",
    "token",
    "credential",
    "private",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
    "ssh",
    "sudoers",
    "machine-id",
    "hostname",
    "resolv.conf",
    "cron",
    "systemd",
    "docker",
    "kubernetes",
    "keytab",
    ".key",
    ".p12",
];

/// Lines of the `openssl.cnf` that OpenSSL ships, without spaces and comments, that look like
/// secrets but are public. Without that file `openssl req` fails.
const PUBLISHED: &[&str] = &["secret=", "secret=pass:insta", "secret=$insta::secret"];

/// Size limit: larger files are data, not configuration.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Copies the allowed files that are world-readable and contain no key.
pub(super) fn copy_allowed(from: &Path, to: &Path) -> Result<()> {
    for allowed in ALLOWED {
        if let Some(prefix) = allowed.strip_suffix('*') {
            for name in listing(from)? {
                if name.to_str().is_some_and(|name| name.starts_with(prefix)) {
                    copy(&from.join(&name), &to.join(&name), 0)?;
                }
            }
        } else if from.join(allowed).symlink_metadata().is_ok() {
            if let Some(parent) = Path::new(allowed)
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
            {
                make_directory(&to.join(parent))?;
            }
            copy(&from.join(allowed), &to.join(allowed), 0)?;
        }
    }
    Ok(())
}

/// Files of `/etc` with content written for the sandbox.
pub(super) fn write_own(etc: &Path) -> Result<()> {
    let files = [
        (
            "hosts",
            "127.0.0.1\tlocalhost sandbar\n::1\tlocalhost ip6-localhost\n",
        ),
        ("hostname", "sandbar\n"),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
             protocols: files\nservices: files\nethers: files\nrpc: files\n",
        ),
    ];
    for (name, content) in files {
        let path = etc.join(name);
        fs::write(&path, content).map_err(|error| failed("write", &path, error))?;
        set_mode(&path, 0o644)?;
    }
    Ok(())
}

/// Copies one allowed entry and everything below it. Entries that fail a check are silently left
/// out: the list covers many distributions.
fn copy(from: &Path, to: &Path, depth: usize) -> Result<()> {
    if depth > 16 || from.file_name().is_none_or(is_forbidden) {
        return Ok(());
    }
    let Ok(metadata) = from.symlink_metadata() else {
        return Ok(());
    };
    let readable = metadata.mode() & 0o004 != 0;
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(|error| failed("read link", from, error))?;
        if leads_to_programs(&target) {
            symlink(&target, to).map_err(|error| failed("make link", to, error))?;
        }
    } else if metadata.is_dir() && readable {
        make_directory(to)?;
        for name in listing(from)? {
            copy(&from.join(&name), &to.join(&name), depth + 1)?;
        }
    } else if metadata.is_file() && readable && metadata.len() <= MAX_FILE_BYTES {
        // World-readable, but not for this process: denied by a security policy.
        let Ok(content) = fs::read(from) else {
            return Ok(());
        };
        if !holds_secret(&content, depth == 0) {
            fs::write(to, content).map_err(|error| failed("write", to, error))?;
            set_mode(to, metadata.mode() & 0o755)?;
        }
    }
    Ok(())
}

fn is_forbidden(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    FORBIDDEN.iter().any(|word| name.contains(word))
}

/// Returns whether a file contains a private key. Files at the top of `/etc`, which administrators
/// edit, are also searched for assignments to names like `password=`.
fn holds_secret(content: &[u8], edited: bool) -> bool {
    let contains = |needle: &[u8]| content.windows(needle.len()).any(|window| window == needle);
    if contains(b"PRIVATE KEY") {
        return true;
    }
    let telling = [
        "password=",
        "passwd=",
        "token=",
        "secret=",
        "api_key=",
        "apikey=",
        "access_key=",
    ];
    edited
        && String::from_utf8_lossy(content)
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .filter(|line| !is_published(line))
            .map(|line| line.to_lowercase().replace(' ', ""))
            .any(|line| telling.iter().any(|word| line.contains(word)))
}

fn is_published(line: &str) -> bool {
    let setting = line
        .split_once(" #")
        .map_or(line, |(setting, _comment)| setting);
    PUBLISHED.contains(&setting.replace(' ', "").as_str())
}

/// Returns whether a symbolic link leads to a file the sandbox has: a program, or the copied
/// `/etc`.
fn leads_to_programs(target: &Path) -> bool {
    let mut parts = target.components();
    if target.is_absolute() {
        parts.next();
        let first = parts.next().map(Component::as_os_str);
        return first.is_some_and(|first| {
            ["usr", "etc", "opt", "bin", "sbin", "lib", "lib64"]
                .iter()
                .any(|known| first == *known)
        });
    }
    // A relative link is resolved inside the sandbox and cannot leave it.
    true
}

fn listing(directory: &Path) -> Result<Vec<std::ffi::OsString>> {
    let failed = |error| failed("list", directory, error);
    fs::read_dir(directory)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.file_name()).map_err(failed))
        .collect()
}

fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| failed("make directory", path, error))?;
    set_mode(path, 0o755)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| failed("set mode of", path, error))
}

fn failed(verb: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("{verb} `{}`", path.display()), error)
}
