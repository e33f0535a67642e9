//! Environment variables by which the E2B SDKs reach a host.

use std::path::{Path, PathBuf};

use crate::local_host::{
    authority,
    discovery::{self, ServedDomain},
};

/// URL of the control API.
const API_URL: &str = "E2B_API_URL";
/// URL of all sandboxes; headers select one.
const SANDBOX_URL: &str = "E2B_SANDBOX_URL";
/// Domain that replaces the two URLs: every sandbox has names below it.
const DOMAIN: &str = "E2B_DOMAIN";
const API_KEY: &str = "E2B_API_KEY";
/// Trust store of Python and programs with OpenSSL; it replaces the default.
const CERT_FILE: &str = "SSL_CERT_FILE";
/// Additional authorities for Node.
const NODE_CERTS: &str = "NODE_EXTRA_CA_CERTS";

/// Variables that only E2B uses.
pub(crate) const OWN: [&str; 4] = [API_URL, SANDBOX_URL, DOMAIN, API_KEY];

/// Environment for one host.
#[derive(Debug)]
pub(crate) struct E2bEnvironment {
    /// Names and values; `None` for a value that is not known here.
    pub(crate) variables: Vec<(&'static str, Option<String>)>,
    /// Variables that must be unset because they take precedence.
    pub(crate) conflicting: &'static [&'static str],
    /// Domain whose names must resolve to the host.
    pub(crate) domain: Option<ServedDomain>,
}

impl E2bEnvironment {
    /// Returns the environment for the host at `url`, with its token and authority if known.
    pub(crate) fn new(url: &str, token: Option<&str>, ca_file: Option<&Path>) -> Self {
        let data_dir = discovery::client_data_dir();
        let is_local = discovery::read_address(&data_dir).as_deref() == Some(url);
        let domain = discovery::read_domain(&data_dir).filter(|_| is_local);
        let mut variables = Vec::new();
        let conflicting: &[_] = if let Some(domain) = &domain {
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
            variables.extend([
                (CERT_FILE, text(&beside_others(ca_file, &data_dir))),
                (NODE_CERTS, text(ca_file)),
            ]);
        }
        Self {
            variables,
            conflicting,
            domain,
        }
    }
}

/// Returns the trust variables whose values this program has set.
pub(crate) fn own_trust() -> Vec<&'static str> {
    let data_dir = discovery::client_data_dir();
    let ours = [
        authority::bundle_path(&data_dir),
        authority::certificate_path(&data_dir),
    ];
    let is_ours = |name: &&str| {
        std::env::var_os(name).is_some_and(|value| ours.contains(&PathBuf::from(value)))
    };
    [CERT_FILE, NODE_CERTS]
        .into_iter()
        .filter(is_ours)
        .collect()
}

/// Returns the domain for an SDK: with the port, unless it is 443.
fn with_port(domain: &ServedDomain, url: &str) -> String {
    match url
        .rsplit(':')
        .next()
        .and_then(|port| port.parse::<u16>().ok())
    {
        Some(port) if port != 443 => format!("{}:{port}", domain.name),
        _ => domain.name.to_string(),
    }
}

/// Returns a bundle with the system's authorities if there is one: with the local authority alone,
/// programs could not connect to any other server.
fn beside_others(ca_file: &Path, data_dir: &Path) -> PathBuf {
    let bundle = authority::bundle_path(data_dir);
    let is_own = ca_file == authority::certificate_path(data_dir);
    if is_own && bundle.exists() {
        bundle
    } else {
        ca_file.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_has_the_port_of_its_host() {
        let domain = ServedDomain {
            name: "sbx.test".parse().unwrap(),
            name_server: None,
        };
        assert_eq!(
            with_port(&domain, "https://127.0.0.1:9100"),
            "sbx.test:9100"
        );
        assert_eq!(with_port(&domain, "https://[::1]:443"), "sbx.test");
    }
}
