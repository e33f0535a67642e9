//! The authority of this machine's own: `tls` in the data directory. Clients on this machine trust it by themselves.

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

use crate::{local_files, output};

/// Stands in every certificate of it; those that were made under another name would not be found.
const NAME: &str = "Sandbar local authority";
/// Whoever was given its certificate has it for this long.
const LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// One with less time left is replaced.
const LEAST_LIFE: SignedDuration = SignedDuration::from_hours(180 * 24);

/// Where systems keep the certificates that programs trust.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What clients trust.
pub(crate) fn certificate_path(data_dir: &Path) -> PathBuf {
    directory(data_dir).join("ca.pem")
}

/// The same beside what this machine trusts anyway: for programs that take one file in place of all others.
pub(crate) fn bundle_path(data_dir: &Path) -> PathBuf {
    directory(data_dir).join("bundle.pem")
}

/// Certificate and key in one file, so that they never part.
fn authority_path(data_dir: &Path) -> PathBuf {
    directory(data_dir).join("authority.pem")
}

fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("tls")
}

/// Who this machine is: by the authority that is there, or a new one the first time and when it runs out.
pub(crate) fn identity(host: &HostConfig, listen: SocketAddr) -> Result<LocalIdentity> {
    let authority = read_or_make(&host.data_dir)?;
    let machine = rustix::system::uname();
    let names = names(host, listen, machine.nodename().to_str().unwrap_or_default());
    Ok(LocalIdentity { authority, names, ingress_domain: host.ingress_domain.as_str().to_owned() })
}

/// Clients are not to trust it where certificates come from elsewhere.
pub(crate) fn hide(data_dir: &Path) {
    // When it stays, a client says whom it does not trust.
    let _ = fs::remove_file(certificate_path(data_dir));
    let _ = fs::remove_file(bundle_path(data_dir));
}

fn read_or_make(data_dir: &Path) -> Result<Authority> {
    let path = authority_path(data_dir);
    let directory = directory(data_dir);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(|error| {
        Error::io(format!("could not make the directory `{}`", directory.display()), error).with_field("tls")
    })?;
    let authority = match read(&path)? {
        Some(authority) if authority.until() - LEAST_LIFE > Timestamp::now() => authority,
        old => {
            if old.is_some() {
                output::say("note: the local authority ran out; clients elsewhere need the new certificate");
            }
            let authority = Authority::new(NAME, LIFE)?;
            local_files::replace(&path, authority.to_pem().as_bytes(), 0o600)?;
            authority
        }
    };
    let certificate = authority.certificate_pem();
    local_files::replace(&certificate_path(data_dir), certificate.as_bytes(), 0o644)?;
    let others = SYSTEM_BUNDLES.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    local_files::replace(&bundle_path(data_dir), format!("{}\n{certificate}", others.trim_end()).as_bytes(), 0o644)?;
    Ok(authority)
}

fn read(path: &Path) -> Result<Option<Authority>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(path).with_source(error)),
    };
    local_files::refuse_readable_by_others(path, "authority")?;
    Authority::from_pem(NAME, &text).map(Some).map_err(|error| unusable(path).with_source(error))
}

fn unusable(path: &Path) -> Error {
    Error::invalid("tls", format!("the local authority `{}` cannot be used", path.display()))
        .with_hint("remove it to get a new one; clients elsewhere then need the new `ca.pem`")
}

/// Everything the port may be called.
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
    fn an_authority_is_made_once_and_nobody_else_can_read_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let first = read_or_make(directory.path()).unwrap();
        let second = read_or_make(directory.path()).unwrap();
        assert_eq!(first.certificate_pem(), second.certificate_pem());
        assert_eq!(fs::read_to_string(certificate_path(directory.path())).unwrap(), first.certificate_pem());
        let bundle = fs::read_to_string(bundle_path(directory.path())).unwrap();
        assert!(bundle.ends_with(first.certificate_pem()), "{bundle}");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&authority_path(directory.path())), 0o600);
        assert_eq!(mode(&directory.path().join("tls")), 0o700);
        fs::set_permissions(authority_path(directory.path()), fs::Permissions::from_mode(0o640)).unwrap();
        let error = read_or_make(directory.path()).unwrap_err();
        assert!(error.hint().unwrap().contains("chmod 600"), "{error:?}");
    }

    #[test]
    fn a_broken_authority_is_refused_with_the_fix_and_one_that_runs_out_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let first = read_or_make(directory.path()).unwrap();
        local_files::replace(&authority_path(directory.path()), b"nothing", 0o600).unwrap();
        let error = read_or_make(directory.path()).unwrap_err();
        assert!(error.hint().unwrap().contains("remove it"), "{error:?}");
        let old = Authority::new(NAME, LEAST_LIFE - SignedDuration::from_hours(1)).unwrap();
        local_files::replace(&authority_path(directory.path()), old.to_pem().as_bytes(), 0o600).unwrap();
        let renewed = read_or_make(directory.path()).unwrap();
        assert_ne!(renewed.certificate_pem(), old.certificate_pem());
        assert_ne!(renewed.certificate_pem(), first.certificate_pem());
    }

    #[test]
    fn every_name_of_the_machine_is_there_once() {
        let host = HostConfig { advertise_addr: "192.0.2.7".to_owned(), ..HostConfig::default() };
        let names = names(&host, "0.0.0.0:9100".parse().unwrap(), "machine.example");
        let expected = ["localhost", "*.localhost", "machine.example"].map(|name| SubjectName::Dns(name.to_owned()));
        for name in &expected {
            assert_eq!(names.iter().filter(|known| *known == name).count(), 1, "{name:?} in {names:?}");
        }
        assert!(names.contains(&SubjectName::Address("192.0.2.7".parse().unwrap())));
        assert!(!names.contains(&SubjectName::Address("0.0.0.0".parse().unwrap())));
    }
}
