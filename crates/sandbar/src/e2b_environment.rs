//! What the E2B SDKs read from the environment, and what it has to say for them to reach a host.

use std::path::{Path, PathBuf};

use crate::{local_authority, local_files, local_files::ServedDomain};

/// Where the control API is.
const API_URL: &str = "E2B_API_URL";
/// Where every sandbox is; headers say which.
const SANDBOX_URL: &str = "E2B_SANDBOX_URL";
/// In place of the two URLs: every sandbox has names of its own below this.
const DOMAIN: &str = "E2B_DOMAIN";
const API_KEY: &str = "E2B_API_KEY";
/// Whom programs trust in place of all others: Python, and whatever uses OpenSSL.
const CERT_FILE: &str = "SSL_CERT_FILE";
/// Whom Node trusts beside others.
const NODE_CERTS: &str = "NODE_EXTRA_CA_CERTS";

/// Variables that are about nothing but E2B.
pub(crate) const OWN: [&str; 4] = [API_URL, SANDBOX_URL, DOMAIN, API_KEY];

/// How the SDKs reach one host.
#[derive(Debug)]
pub(crate) struct E2bEnvironment {
    /// Names and values; one without a value is not known here.
    pub(crate) variables: Vec<(&'static str, Option<String>)>,
    /// Variables that would lead elsewhere.
    pub(crate) misleading: &'static [&'static str],
    /// The domain whose names have to lead to the host.
    pub(crate) domain: Option<ServedDomain>,
}

impl E2bEnvironment {
    /// For the host at `url`, with its token and whom to trust, where that is known.
    pub(crate) fn new(url: &str, token: Option<&str>, ca_file: Option<&Path>) -> Self {
        let data_dir = local_files::client_data_dir();
        let is_local = local_files::read_address(&data_dir).as_deref() == Some(url);
        let domain = local_files::read_domain(&data_dir).filter(|_| is_local);
        let mut variables = Vec::new();
        let misleading: &[_] = if let Some(domain) = &domain {
            variables.push((DOMAIN, Some(with_port(domain, url))));
            &[API_URL, SANDBOX_URL]
        } else {
            let url = url.trim_end_matches('/').to_owned();
            variables.extend([(API_URL, Some(url.clone())), (SANDBOX_URL, Some(url))]);
            &[DOMAIN]
        };
        variables.push((API_KEY, token.map(sandbar_e2b::api_key)));
        if let Some(ca_file) = ca_file {
            let text = |path: &Path| Some(path.to_string_lossy().into_owned());
            variables.extend([(CERT_FILE, text(&beside_others(ca_file, &data_dir))), (NODE_CERTS, text(ca_file))]);
        }
        Self { variables, misleading, domain }
    }
}

/// Variables about trust that hold what only this program can have put there.
pub(crate) fn own_trust() -> Vec<&'static str> {
    let data_dir = local_files::client_data_dir();
    let ours = [local_authority::bundle_path(&data_dir), local_authority::certificate_path(&data_dir)];
    let is_ours = |name: &&str| std::env::var_os(name).is_some_and(|value| ours.contains(&PathBuf::from(value)));
    [CERT_FILE, NODE_CERTS].into_iter().filter(is_ours).collect()
}

/// The domain as an SDK takes it: with the port, unless it is the one of `https`.
fn with_port(domain: &ServedDomain, url: &str) -> String {
    match url.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()) {
        Some(port) if port != 443 => format!("{}:{port}", domain.name),
        _ => domain.name.to_string(),
    }
}

/// A program that trusted this authority alone could reach nothing else any more.
fn beside_others(ca_file: &Path, data_dir: &Path) -> PathBuf {
    let bundle = local_authority::bundle_path(data_dir);
    let is_own = ca_file == local_authority::certificate_path(data_dir);
    if is_own && bundle.exists() { bundle } else { ca_file.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_the_port_of_its_host() {
        let domain = ServedDomain { name: "sbx.test".parse().unwrap(), name_server: None };
        assert_eq!(with_port(&domain, "https://127.0.0.1:9100"), "sbx.test:9100");
        assert_eq!(with_port(&domain, "https://[::1]:443"), "sbx.test");
    }
}
