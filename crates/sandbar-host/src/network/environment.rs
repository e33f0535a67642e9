//! Environment variables for commands in a session with an open network.

use sandbar_core::NetworkPolicy;
use sandbar_netns::{GATEWAY_V4, PROXY_PORT};
use sandbar_runtime::{AUTHORITY_FILE, BUNDLE_FILE, TRUST_DIRECTORY};

/// Variables that name a proxy.
const PROXY: [&str; 4] = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];
/// Variables that name the destinations that bypass the proxy.
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// Addresses and names of the sandbox itself, beside its host name. Some programs connect to
/// `0.0.0.0` or `::` to reach a local server.
const LOCAL: &str = "localhost,127.0.0.1,::1,0.0.0.0,::";

/// Variables that name the CA bundle of a program: OpenSSL, curl, Python requests, pip, git, AWS
/// and cargo read one each.
const BUNDLE: [&str; 7] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
];
/// Variables that name a CA to trust beside the built-in ones: Node and Deno.
const EXTRA_CA: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// Returns the variables for a session with this policy and host name.
pub(crate) fn variables(
    policy: &NetworkPolicy,
    host_name: &str,
) -> impl Iterator<Item = (String, String)> {
    let proxy = format!("http://{GATEWAY_V4}:{PROXY_PORT}");
    let mut groups = vec![
        (&PROXY[..], proxy),
        (&NO_PROXY[..], format!("{LOCAL},{host_name}")),
    ];
    if policy.intercepts() {
        groups.push((&BUNDLE[..], format!("{TRUST_DIRECTORY}/{BUNDLE_FILE}")));
        groups.push((&EXTRA_CA[..], format!("{TRUST_DIRECTORY}/{AUTHORITY_FILE}")));
    }
    groups.into_iter().flat_map(|(names, value)| {
        names
            .iter()
            .map(move |name| ((*name).to_owned(), value.clone()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn ca_variables_are_set_only_with_tls_inspection() {
        let plain: BTreeMap<_, _> = variables(&NetworkPolicy::full(), "s1").collect();
        assert_eq!(plain["https_proxy"], "http://192.0.0.1:3128");
        assert_eq!(plain["NO_PROXY"], "localhost,127.0.0.1,::1,0.0.0.0,::,s1");
        assert!(!plain.contains_key("SSL_CERT_FILE"));
        let inspected = NetworkPolicy {
            inspect_tls: true,
            ..NetworkPolicy::full()
        };
        let inspected: BTreeMap<_, _> = variables(&inspected, "s1").collect();
        assert_eq!(
            inspected["SSL_CERT_FILE"],
            "/dev/sandbar/ca-certificates.crt"
        );
        assert_eq!(
            inspected["NODE_EXTRA_CA_CERTS"],
            "/dev/sandbar/authority.crt"
        );
    }
}
