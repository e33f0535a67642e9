//! The local certificate authority of `--tls auto`: `tls` in the data directory. Clients on the
//! same machine trust it by default.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use sandbar_core::{DomainName, Error, Result};
use sandbar_host::HostConfig;
use sandbar_server::LocalIdentity;
use sandbar_x509::{Authority, SubjectName};

use crate::{local_host::discovery, terminal::output};

/// Common name of the authority. Certificates issued under another name would not chain to it.
const NAME: &str = "Sandbar local authority";
/// Validity of a new authority.
const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// An authority with less validity left is replaced.
const MIN_LIFETIME_LEFT: SignedDuration = SignedDuration::from_hours(180 * 24);

/// Paths of the system's trust store.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the path of the certificate that clients trust.
pub(crate) fn certificate_path(data_dir: &Path) -> PathBuf {
    directory(data_dir).join("ca.pem")
}

/// Returns the path of a bundle of that certificate and the system's, for programs that take a
/// single file.
pub(crate) fn bundle_path(data_dir: &Path) -> PathBuf {
    directory(data_dir).join("bundle.pem")
}

/// Returns the path of certificate and key, in one file so that they are always replaced together.
fn authority_path(data_dir: &Path) -> PathBuf {
    directory(data_dir).join("authority.pem")
}

fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("tls")
}

/// Returns the TLS identity of this machine. The authority is created on first use and replaced
/// before it expires.
pub(crate) fn identity(host: &HostConfig, listen: SocketAddr) -> Result<LocalIdentity> {
    let authority = read_or_make(&host.data_dir)?;
    let machine = rustix::system::uname();
    let names = names(
        host,
        listen,
        machine.nodename().to_str().unwrap_or_default(),
    );
    Ok(LocalIdentity {
        authority,
        names,
        ingress_domain: host.ingress_domain.as_str().to_owned(),
    })
}

/// Removes the public files of the authority, so that clients do not trust it while it is not used.
pub(crate) fn hide(data_dir: &Path) {
    // If a removal fails, clients report a certificate error.
    let _ = fs::remove_file(certificate_path(data_dir));
    let _ = fs::remove_file(bundle_path(data_dir));
}

fn read_or_make(data_dir: &Path) -> Result<Authority> {
    let path = authority_path(data_dir);
    let directory = directory(data_dir);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|error| {
            Error::io(
                format!("could not create the directory `{}`", directory.display()),
                error,
            )
            .with_field("tls")
        })?;
    let authority = match read(&path)? {
        Some(authority) if authority.until() - MIN_LIFETIME_LEFT > Timestamp::now() => authority,
        old => {
            if old.is_some() {
                output::say(
                    "note: the local authority was replaced before its expiry; clients on other machines need the new ca.pem",
                );
            }
            let authority = Authority::new(NAME, LIFETIME)?;
            discovery::replace(&path, authority.to_pem().as_bytes(), 0o600)?;
            authority
        }
    };
    let certificate = authority.certificate_pem();
    discovery::replace(&certificate_path(data_dir), certificate.as_bytes(), 0o644)?;
    let others = SYSTEM_BUNDLES
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())
        .unwrap_or_default();
    discovery::replace(
        &bundle_path(data_dir),
        format!("{}\n{certificate}", others.trim_end()).as_bytes(),
        0o644,
    )?;
    Ok(authority)
}

fn read(path: &Path) -> Result<Option<Authority>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(path).with_source(error)),
    };
    discovery::refuse_readable_by_others(path, "authority")?;
    Authority::from_pem(NAME, &text)
        .map(Some)
        .map_err(|error| unusable(path).with_source(error))
}

fn unusable(path: &Path) -> Error {
    Error::invalid(
        "tls",
        format!("local authority `{}` is not usable", path.display()),
    )
    .with_hint("remove it to get a new one; clients on other machines then need the new `ca.pem`")
}

/// Returns all names and addresses of the API for its certificate.
fn names(host: &HostConfig, listen: SocketAddr, machine: &str) -> Vec<SubjectName> {
    let domain = host.ingress_domain.as_str();
    let mut names = vec![
        SubjectName::Dns("localhost".to_owned()),
        SubjectName::Address(Ipv4Addr::LOCALHOST.into()),
        SubjectName::Address(Ipv6Addr::LOCALHOST.into()),
        SubjectName::Dns(domain.to_owned()),
        SubjectName::Dns(format!("*.{domain}")),
    ];
    if !listen.ip().is_unspecified() {
        names.push(SubjectName::Address(listen.ip()));
    }
    for other in [machine, &host.advertise_addr] {
        match (other.parse::<IpAddr>(), other.parse::<DomainName>()) {
            (Ok(address), _) => names.push(SubjectName::Address(address)),
            (_, Ok(name)) => names.push(SubjectName::Dns(name.as_str().to_owned())),
            _ => {}
        }
    }
    let mut seen = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn authority_is_created_once_with_a_private_key_file() {
        let directory = tempfile::tempdir().unwrap();
        let first = read_or_make(directory.path()).unwrap();
        let second = read_or_make(directory.path()).unwrap();
        assert_eq!(first.certificate_pem(), second.certificate_pem());
        assert_eq!(
            fs::read_to_string(certificate_path(directory.path())).unwrap(),
            first.certificate_pem()
        );
        let bundle = fs::read_to_string(bundle_path(directory.path())).unwrap();
        assert!(bundle.ends_with(first.certificate_pem()), "{bundle}");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&authority_path(directory.path())), 0o600);
        assert_eq!(mode(&directory.path().join("tls")), 0o700);
        fs::set_permissions(
            authority_path(directory.path()),
            fs::Permissions::from_mode(0o640),
        )
        .unwrap();
        let error = read_or_make(directory.path()).unwrap_err();
        assert!(error.hint().unwrap().contains("chmod 600"), "{error:?}");
    }

    #[test]
    fn broken_authority_is_refused_and_expiring_one_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let first = read_or_make(directory.path()).unwrap();
        discovery::replace(&authority_path(directory.path()), b"nothing", 0o600).unwrap();
        let error = read_or_make(directory.path()).unwrap_err();
        assert!(error.hint().unwrap().contains("remove it"), "{error:?}");
        let old = Authority::new(NAME, MIN_LIFETIME_LEFT - SignedDuration::from_hours(1)).unwrap();
        discovery::replace(
            &authority_path(directory.path()),
            old.to_pem().as_bytes(),
            0o600,
        )
        .unwrap();
        let renewed = read_or_make(directory.path()).unwrap();
        assert_ne!(renewed.certificate_pem(), old.certificate_pem());
        assert_ne!(renewed.certificate_pem(), first.certificate_pem());
    }

    #[test]
    fn certificate_has_every_name_of_the_machine_once() {
        let host = HostConfig {
            advertise_addr: "192.0.2.7".to_owned(),
            ..HostConfig::default()
        };
        let names = names(&host, "0.0.0.0:9100".parse().unwrap(), "machine.example");
        let expected = ["localhost", "*.localhost", "machine.example"]
            .map(|name| SubjectName::Dns(name.to_owned()));
        for name in &expected {
            assert_eq!(
                names.iter().filter(|known| *known == name).count(),
                1,
                "{name:?} in {names:?}"
            );
        }
        assert!(names.contains(&SubjectName::Address("192.0.2.7".parse().unwrap())));
        assert!(!names.contains(&SubjectName::Address("0.0.0.0".parse().unwrap())));
    }
}
