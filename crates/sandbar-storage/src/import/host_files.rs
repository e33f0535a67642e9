//! The `/etc` of a base made from this machine: what programs need to start.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Component, Path},
};

use sandbar_core::{Error, Result};

/// What is copied from `/etc`, by name; a `*` at the end stands for any rest. Whatever is not here stays on the machine.
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

/// Words in a file name that mean it is nobody else's business, wherever it lies.
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

/// Lines of the `openssl.cnf` that OpenSSL ships, without spaces and comments. Their values are public. Without that file
/// `openssl req` fails.
const PUBLISHED: &[&str] = &["secret=", "secret=pass:insta", "secret=$insta::secret"];

/// Larger files are data, not configuration.
const LARGEST: u64 = 4 << 20;

/// Copies what is on the list, as far as it is readable for everybody and holds no key.
pub(super) fn copy_allowed(from: &Path, to: &Path) -> Result<()> {
    for allowed in ALLOWED {
        if let Some(prefix) = allowed.strip_suffix('*') {
            for name in listing(from)? {
                if name.to_str().is_some_and(|name| name.starts_with(prefix)) {
                    copy(&from.join(&name), &to.join(&name), 0)?;
                }
            }
        } else if from.join(allowed).symlink_metadata().is_ok() {
            if let Some(parent) = Path::new(allowed).parent().filter(|parent| !parent.as_os_str().is_empty()) {
                make_directory(&to.join(parent))?;
            }
            copy(&from.join(allowed), &to.join(allowed), 0)?;
        }
    }
    Ok(())
}

/// Files the machine has too, written for the sandbox.
pub(super) fn write_own(etc: &Path) -> Result<()> {
    let files = [
        ("hosts", "127.0.0.1\tlocalhost sandbar\n::1\tlocalhost ip6-localhost\n"),
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

/// Copies one allowed entry and what is below it. Whatever does not pass is left out without a word: the list names
/// more than one machine has.
fn copy(from: &Path, to: &Path, depth: usize) -> Result<()> {
    if depth > 16 || from.file_name().is_none_or(is_forbidden) {
        return Ok(());
    }
    let Ok(metadata) = from.symlink_metadata() else { return Ok(()) };
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
    } else if metadata.is_file() && readable && metadata.len() <= LARGEST {
        // Readable for everybody, but not for us: some policy forbids it.
        let Ok(content) = fs::read(from) else { return Ok(()) };
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

/// Keys anywhere; and in the files at the top of `/etc`, which administrators edit, values given to a telling name.
fn holds_secret(content: &[u8], edited: bool) -> bool {
    let contains = |needle: &[u8]| content.windows(needle.len()).any(|window| window == needle);
    if contains(b"PRIVATE KEY") {
        return true;
    }
    let telling = ["password=", "passwd=", "token=", "secret=", "api_key=", "apikey=", "access_key="];
    edited
        && String::from_utf8_lossy(content)
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .filter(|line| !is_published(line))
            .map(|line| line.to_lowercase().replace(' ', ""))
            .any(|line| telling.iter().any(|word| line.contains(word)))
}

fn is_published(line: &str) -> bool {
    let setting = line.split_once(" #").map_or(line, |(setting, _comment)| setting);
    PUBLISHED.contains(&setting.replace(' ', "").as_str())
}

/// Whether a link stays among the files a sandbox sees: programs, or the copied `/etc` itself.
fn leads_to_programs(target: &Path) -> bool {
    let mut parts = target.components();
    if target.is_absolute() {
        parts.next();
        let first = parts.next().map(Component::as_os_str);
        return first.is_some_and(|first| {
            ["usr", "etc", "opt", "bin", "sbin", "lib", "lib64"].iter().any(|known| first == *known)
        });
    }
    // A relative link is resolved inside the sandbox, where the rest of the machine is not.
    true
}

fn listing(directory: &Path) -> Result<Vec<std::ffi::OsString>> {
    let failed = |error| failed("list", directory, error);
    fs::read_dir(directory).map_err(failed)?.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect()
}

fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| failed("make directory", path, error))?;
    set_mode(path, 0o755)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| failed("set mode of", path, error))
}

fn failed(verb: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("{verb} `{}`", path.display()), error)
}
