//! Files in the data directory by which clients find the host on the same machine: `token`,
//! `address` and `domain`.

use std::{
    fs,
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sandbar_core::{DomainName, Error, Result};

use crate::env_vars;

/// Returns the data directory of a host without configuration.
pub(crate) fn default_data_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/lib/sandbar".into();
    }
    let absolute = |variable: &str| {
        std::env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_else(|| "/var/tmp".into())
        .join("sandbar")
}

/// Returns the data directory in which a client looks for the host.
pub(crate) fn client_data_dir() -> PathBuf {
    std::env::var_os(env_vars::DATA_DIR)
        .filter(|value| !value.is_empty())
        .map_or_else(default_data_dir, PathBuf::from)
}

pub(crate) fn token_path(data_dir: &Path) -> PathBuf {
    data_dir.join("token")
}

pub(crate) fn address_path(data_dir: &Path) -> PathBuf {
    data_dir.join("address")
}

/// Returns the token of the local host, if there is one.
pub(crate) fn read_token(data_dir: &Path) -> Result<Option<String>> {
    let path = token_path(data_dir);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|token| !token.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(
            format!("could not read the token `{}`", path.display()),
            error,
        )
        .with_hint("run this as the user the host runs as, or set SANDBAR_TOKEN")),
    }
}

/// Returns the token of the local host; a random one is created on first use. Only the owner can
/// read the file.
pub(crate) fn read_or_make_token(data_dir: &Path) -> Result<String> {
    let path = token_path(data_dir);
    if let Some(token) = read_token(data_dir)? {
        refuse_readable_by_others(&path, "token")?;
        return Ok(token);
    }
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::internal("could not generate a token").with_source(error))?;
    let token = bytes
        .iter()
        .fold(String::new(), |token, byte| token + &format!("{byte:02x}"));
    replace(&path, token.as_bytes(), 0o600)?;
    Ok(token)
}

/// Refuses a secret file that other users can read.
pub(crate) fn refuse_readable_by_others(path: &Path, what: &'static str) -> Result<()> {
    let mode = fs::metadata(path).map_or(0, |data| data.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        return Err(Error::invalid(
            what,
            format!("{what} `{}` is readable by other users", path.display()),
        )
        .with_hint(format!(
            "run `chmod 600 {}`, or remove it to get a new one",
            path.display()
        )));
    }
    Ok(())
}

/// Returns the URL of the local host, if its address is known. Without a scheme it is plain HTTP.
pub(crate) fn read_address(data_dir: &Path) -> Option<String> {
    let text = fs::read_to_string(address_path(data_dir)).ok()?;
    let (scheme, address) = match text.trim().split_once("://") {
        Some((scheme @ ("http" | "https"), address)) => (scheme, address),
        Some(_) => return None,
        None => ("http", text.trim()),
    };
    address
        .parse::<SocketAddr>()
        .ok()
        .map(|address| format!("{scheme}://{address}"))
}

pub(crate) fn write_address(data_dir: &Path, url: &str) -> Result<()> {
    replace(
        &address_path(data_dir),
        format!("{url}\n").as_bytes(),
        0o644,
    )
}

/// Returns the URL for clients on this machine of a host with this listen address.
pub(crate) fn local_url(listening: SocketAddr, speaks_tls: bool) -> String {
    let address = match listening.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    let scheme = if speaks_tls { "https" } else { "http" };
    format!("{scheme}://{}", SocketAddr::new(address, listening.port()))
}

pub(crate) fn remove_address(data_dir: &Path) {
    // A file that is left only makes clients report that the host does not answer.
    let _ = fs::remove_file(address_path(data_dir));
    let _ = fs::remove_file(domain_path(data_dir));
}

fn domain_path(data_dir: &Path) -> PathBuf {
    data_dir.join("domain")
}

/// Domain of the local host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedDomain {
    /// The domain; names below it belong to sandboxes.
    pub(crate) name: DomainName,
    /// Name server that resolves them.
    pub(crate) name_server: Option<SocketAddr>,
}

/// Returns the domain of the local host. Only a host with TLS writes it.
pub(crate) fn read_domain(data_dir: &Path) -> Option<ServedDomain> {
    let text = fs::read_to_string(domain_path(data_dir)).ok()?;
    let mut lines = text.lines();
    let name = lines.next()?.parse().ok()?;
    Some(ServedDomain {
        name,
        name_server: lines.next().and_then(|line| line.parse().ok()),
    })
}

/// Writes or removes the domain.
pub(crate) fn write_domain(data_dir: &Path, domain: Option<&ServedDomain>) -> Result<()> {
    let path = domain_path(data_dir);
    let Some(ServedDomain { name, name_server }) = domain else {
        let _ = fs::remove_file(path);
        return Ok(());
    };
    let name_server = name_server
        .map(|address| format!("{address}\n"))
        .unwrap_or_default();
    replace(&path, format!("{name}\n{name_server}").as_bytes(), 0o644)
}

/// Replaces a small file atomically.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let failed = |error| Error::io(format!("could not write `{}`", path.display()), error);
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_created_once_and_private() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_token(directory.path()).unwrap(), None);
        let token = read_or_make_token(directory.path()).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(read_or_make_token(directory.path()).unwrap(), token);
        let mode = fs::metadata(token_path(directory.path()))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn token_readable_by_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        read_or_make_token(directory.path()).unwrap();
        fs::set_permissions(
            token_path(directory.path()),
            fs::Permissions::from_mode(0o644),
        )
        .unwrap();
        let error = read_or_make_token(directory.path()).unwrap_err();
        assert!(error.hint().unwrap().contains("chmod 600"), "{error:?}");
    }

    #[test]
    fn address_is_read_back_and_nonsense_ignored() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_address(directory.path()), None);
        for url in ["http://127.0.0.1:4711", "https://[::1]:4711"] {
            write_address(directory.path(), url).unwrap();
            assert_eq!(read_address(directory.path()).as_deref(), Some(url));
        }
        fs::write(address_path(directory.path()), "127.0.0.1:4711\n").unwrap();
        assert_eq!(
            read_address(directory.path()).as_deref(),
            Some("http://127.0.0.1:4711")
        );
        fs::write(address_path(directory.path()), "ftp://127.0.0.1:4711").unwrap();
        assert_eq!(read_address(directory.path()), None);
        fs::write(address_path(directory.path()), "nonsense").unwrap();
        assert_eq!(read_address(directory.path()), None);
    }

    #[test]
    fn domain_is_read_back_until_removed() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_domain(directory.path()), None);
        for name_server in [None, Some("127.0.0.1:5353".parse().unwrap())] {
            let domain = ServedDomain {
                name: "sbx.test".parse().unwrap(),
                name_server,
            };
            write_domain(directory.path(), Some(&domain)).unwrap();
            assert_eq!(read_domain(directory.path()), Some(domain));
        }
        write_domain(directory.path(), None).unwrap();
        assert_eq!(read_domain(directory.path()), None);
    }

    #[test]
    fn local_url_of_an_unspecified_address_is_loopback() {
        let url = |address: &str, speaks_tls| local_url(address.parse().unwrap(), speaks_tls);
        assert_eq!(url("0.0.0.0:9100", true), "https://127.0.0.1:9100");
        assert_eq!(url("[::]:9100", false), "http://[::1]:9100");
        assert_eq!(url("192.0.2.1:9100", true), "https://192.0.2.1:9100");
    }
}
