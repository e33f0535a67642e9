//! CA certificates that a box trusts in addition to its own.

/// CA certificates in PEM that a box shows below [`TRUST_DIRECTORY`], outside the session's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Certificate of the session's CA: `authority.crt`.
    pub authority: String,
    /// The CA bundle of the session's tree plus that certificate: `ca-certificates.crt`. Also
    /// mounted over the CA bundles in the tree.
    pub bundle: String,
}

/// Directory of a box that shows its [`Trust`].
pub const TRUST_DIRECTORY: &str = "/dev/sandbar";

/// Name of the file with [`Trust::authority`].
pub const AUTHORITY_FILE: &str = "authority.crt";
/// Name of the file with [`Trust::bundle`].
pub const BUNDLE_FILE: &str = "ca-certificates.crt";

/// Paths of CA bundles in a tree, relative to its root: Debian, Fedora, openSUSE, Alpine. Those
/// that exist are covered by [`Trust::bundle`].
pub const CA_BUNDLE_PATHS: [&str; 4] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
];
